"""A federation of separate processes on this machine: a chain, stores, a coordinator and clients under one supervisor.

``layout`` says what lies where, ``windows`` how many blocks a phase takes, ``setup`` makes the directory (under the
``lock``), ``processes`` says what is started, ``keeper`` keeps one process running, known by its ``identity``,
``supervisor`` all of them, ``pacer`` skips idle blocks, and ``control`` is what the command uses.
"""
