"""One description of a federation: its terms, the clients and their data, and how it is run.

``fedgrove simulate``, ``demo`` and ``network up`` run a ``Scenario``. Options of commands, keywords in Python and
files follow from its fields.
"""
