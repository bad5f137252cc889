"""Every method of the wire, by name. docs/protocol.md describes them."""

from jobd.rpc.dispatch import Method
from jobd.rpc.methods import (
    backend,
    config,
    control,
    events,
    explain,
    hello,
    listing,
    logs,
    queue,
    reap,
    session,
    show,
    shutdown,
    status,
    submit,
    wait,
)

METHODS: dict[str, Method] = {
    **hello.METHODS,
    **status.METHODS,
    **submit.METHODS,
    **listing.METHODS,
    **show.METHODS,
    **explain.METHODS,
    **wait.METHODS,
    **control.METHODS,
    **reap.METHODS,
    **logs.METHODS,
    **events.METHODS,
    **session.METHODS,
    **queue.METHODS,
    **backend.METHODS,
    **config.METHODS,
    **shutdown.METHODS,
}
