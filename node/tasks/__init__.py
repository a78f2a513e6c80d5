"""Bundles of code that members bring to be learned, and who agreed to run them.

Only the sandbox runs that code.

- ``names``: the bounds of a bundle, and which paths may be in one
- ``folder``: a folder of this machine as contents by path, and back
- ``python_text``: what a Python file may be, so that what is shown is what runs
- ``imports``, ``lock``: the packages that the code imports, and the versions that it was packed with
- ``bundle``: files under one CID; packing them, and putting them into a store
- ``fetching``: a bundle out of a store, hostile until checked
- ``approval``: which bundles a member has approved, signed with the member's account
- ``difference``: what changed from one bundle to the next
- ``task_methods``: which methods of a task's class are used
- ``reading_notes``: what a reader might overlook
- ``beginning``: a folder to begin with
- ``sandbox``: a process of its own for that code, without keys, network or other processes
"""
