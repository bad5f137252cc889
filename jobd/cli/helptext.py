"""What ``jobd help`` says."""

TEXT = """\
usage: jobd [--socket PATH] [--json] [--no-autostart] [-q] VERB ...

jobs
  run [opts] -- CMD ARG...      submit, follow the output, exit as the job did
  submit [opts] -- CMD ARG...   submit; prints the id
  list (ls)                     active jobs and the newest finished ones
  show ID...                    everything about jobs
  explain ID...                 why a job is not running, or why and how it ended
  wait ID...                    until jobs have ended, started, or come to a state
  logs ID                       the output of a job
  events                        state changes, as they are kept and as they come

control
  suspend | resume ID...        stop a running job, let it go on
  hold | release ID...          keep a waiting job from starting
  terminate (cancel) ID...      end a job and all its processes
  signal SIG ID...              send a signal
  reap (rm) ID...               forget finished jobs and their output

sessions, queues, backends
  session list|create|remove    job sessions
  queue list                    local queues
  backend list                  where jobs can run, and how it is there

the daemon
  serve                         run it in the foreground
  status | shutdown             how it is; stop it (jobs run on)
  config check|show             the configuration
  doctor                        what is wrong here, and what to do about it
  completion bash|zsh|fish      a completion script

ID is 42, 42.7 (task 7 of array 42), 3-9, or last;
or select with --session, --label, --state, --queue, --backend, --all.
jobd VERB --help tells more.
"""
