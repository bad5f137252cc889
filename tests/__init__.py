"""The tests of jobd."""
