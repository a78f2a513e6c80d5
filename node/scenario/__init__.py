"""One description of a federation: its terms, the clients and their data, and how it is run.

``fedgrove simulate``, ``demo`` and ``network up`` run a ``Scenario``; options of commands, keywords in Python, files and
the tables of the documentation follow from its fields.
"""
