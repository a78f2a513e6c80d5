"""Contents of each page, as plain values from the index. Foreign text is inert when it leaves this package.

- ``words``: the names for kinds of records, roles of blobs, phases and outcomes
- ``rows``: records and blobs for people, each with how far it is checked
- ``runs``: a run as pages, comparisons and JSON see it
- ``rounds``: all rounds in a line each, and one round whole
- ``charts``: what is drawn over the rounds
- ``clients``: all members, one member, and what members have asked to be forgotten
- ``clusters``, ``cluster_course``: clusters and judgements, and their course
- ``blobs``: the models in their order, what a blob holds, the terms
- ``contracts``: gas a call, and the registry's own records
- ``own_pages``: pages that only histories with one method have
- ``settings``: the terms one by one, and the hyper-parameters among them
- ``comparison``: several runs next to each other
- ``search``: pages that a name or a number leads to
"""
