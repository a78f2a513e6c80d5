"""What a fork runs as the process of a sandbox: its input is the socket by which it hears from the node."""

import os

from fedgrove.node.tasks.sandbox.warm import main

if __name__ == "__main__":
    control, nothing = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # no job is to inherit the socket
    os.close(nothing)
    main(control)
