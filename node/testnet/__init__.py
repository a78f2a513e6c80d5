"""A federation of separate processes on this machine: a chain, stores, a coordinator and clients under one supervisor.

``layout`` says what lies where, ``windows`` how many blocks a phase takes, ``setup`` makes the directory, ``processes``
says what is started, ``keeper`` keeps one process running, ``supervisor`` all of them, and ``control`` is what the
command uses.
"""
