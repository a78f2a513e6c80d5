"""Records of the contracts: one frozen dataclass per event, in one module for each phase of a round.

Fields are the events' parameters in snake_case: integers as ``int``, addresses as checksummed ``str``, everything else
as ``bytes``. Digests are the 32-byte sha2-256 digests under which the content store knows the blobs.

A kind of record states all that is to be known of it in its class (``base.Record``); ``KINDS`` is what readers, rules,
audit, reports and pages go through.
"""

from fedgrove.chain.records.base import *
from fedgrove.chain.records.draws import *
from fedgrove.chain.records.membership import *
from fedgrove.chain.records.order import *
from fedgrove.chain.records.results import *
from fedgrove.chain.records.uploads import *
from fedgrove.chain.records.vouched import *
