// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice A Merkle tree over an order that is still being appended to. Memory only; 17 peaks hold 2¹⁷−1 leaves, more
/// than the 65,535 clients that a round can have.
/// @param count leaves appended so far
/// @param last the key of the last leaf
/// @param peaks peaks[k] is the root over 2ᵏ leaves, and is in use when bit k of `count` is set
struct Frontier {
    uint256 count;
    bytes32 last;
    bytes32[17] peaks;
}

/// @title CooperationTree
/// @notice The order of a round's clients, its Merkle root, and who cooperates with whom in it.
///
/// A ticket is the top 96 bits of the client's VRF output ‖ its uint32 index, so no two clients have equal tickets. The
/// order is the tickets, ascending by their keys keccak256(order seed ‖ uint128 ticket). The order seed is fixed after
/// the last draw: nobody who can still choose whether to draw knows where a ticket will stand. Leaf i of the Merkle
/// tree is keccak256(0x00 ‖ uint32 i ‖ uint128 ticket), an inner node is keccak256(0x01 ‖ left ‖ right), an odd node is
/// promoted unchanged (the tree shape of RFC 6962).
library CooperationTree {
    uint256 internal constant TICKET_BYTES = 16;
    uint256 internal constant INDEX_BYTES = 2;

    /// @dev The key of the ticket is not above that of the ticket before it.
    error TicketsNotAscending(uint256 position, uint128 ticket);
    error PermutationIndexOutOfRange(uint256 position, uint256 index);
    error LengthMismatch(uint256 given, uint256 expected);
    error PositionOutOfRange(uint256 position, uint256 n);

    /// @notice Appends a ticket, whose key must be above that of the last one.
    /// NOTE: it is not checked that anybody drew this ticket.
    function append(Frontier memory frontier, uint128 ticket, bytes32 orderSeed) internal pure {
        uint256 position = frontier.count;
        bytes32 key = keyOf(ticket, orderSeed);
        if (position != 0 && key <= frontier.last) revert TicketsNotAscending(position, ticket);
        bytes32 node = leaf(uint32(position), ticket);
        uint256 level = 0;
        // The trailing ones of `count` are the subtrees that the new leaf completes.
        for (uint256 rest = position; rest & 1 == 1; rest >>= 1) {
            node = parent(frontier.peaks[level], node);
            ++level;
        }
        frontier.peaks[level] = node;
        frontier.count = position + 1;
        frontier.last = key;
    }

    /// @notice The Merkle root over all leaves appended; zero when there is none.
    function root(Frontier memory frontier) internal pure returns (bytes32 node) {
        bool found = false;
        for (uint256 level = 0; level < 17; ++level) {
            if ((frontier.count >> level) & 1 == 0) continue;
            node = found ? parent(frontier.peaks[level], node) : frontier.peaks[level];
            found = true;
        }
    }

    /// @notice The Merkle root over the tickets in the order that `permutation` gives them.
    /// @dev The keys must ascend strictly along n indices below n: an index that came twice would repeat a key, so the
    /// indices are a permutation and every ticket is placed exactly once.
    /// NOTE: that `tickets` are the drawn ones is for the caller to check, by {chain}.
    /// @param tickets n uint128, big-endian, in the order of the draws
    /// @param permutation n uint16, big-endian: the i-th of the order is tickets[permutation[i]]
    /// @param orderSeed what the keys are made with
    function sortedRoot(bytes calldata tickets, bytes calldata permutation, bytes32 orderSeed)
        internal
        pure
        returns (bytes32)
    {
        // Rounding down is meant: a rest of `tickets` is no ticket, and the caller has checked that there is none.
        // slither-disable-start divide-before-multiply
        uint256 n = tickets.length / TICKET_BYTES;
        if (permutation.length != n * INDEX_BYTES) revert LengthMismatch(permutation.length, n * INDEX_BYTES);
        // slither-disable-end divide-before-multiply
        Frontier memory frontier;
        for (uint256 i = 0; i < n; ++i) {
            uint256 index;
            assembly ("memory-safe") {
                index := shr(240, calldataload(add(permutation.offset, shl(1, i))))
            }
            if (index >= n) revert PermutationIndexOutOfRange(i, index);
            append(frontier, ticketAt(tickets, index), orderSeed);
        }
        return root(frontier);
    }

    /// @notice keccak256(order seed ‖ uint128 ticket), by which the order sorts
    function keyOf(uint128 ticket, bytes32 orderSeed) internal pure returns (bytes32 key) {
        assembly ("memory-safe") {
            mstore(0x00, orderSeed)
            mstore(0x20, shl(128, ticket))
            key := keccak256(0x00, 0x30)
        }
    }

    /// @notice One step of the hash chain over the tickets in the order of their draws.
    /// @dev Truncated to 160 bits: to seal another order, one must find a second preimage, or prepare a collision (2⁸⁰
    /// hashes) between the seed's block and the last own draw.
    function chain(uint160 link, uint128 ticket) internal pure returns (uint160 next) {
        assembly ("memory-safe") {
            mstore(0x00, or(shl(96, link), shr(32, ticket)))
            mstore(0x20, shl(224, ticket))
            next := shr(96, keccak256(0x00, 0x24))
        }
    }

    /// @notice The hash chain over all `tickets`.
    function chainOf(bytes calldata tickets) internal pure returns (uint160 link) {
        uint256 n = tickets.length / TICKET_BYTES;
        for (uint256 i = 0; i < n; ++i) {
            link = chain(link, ticketAt(tickets, i));
        }
    }

    /// @notice The ticket at `index`. NOTE: beyond the end it reads whatever follows; callers bound the index.
    function ticketAt(bytes calldata tickets, uint256 index) internal pure returns (uint128 ticket) {
        assembly ("memory-safe") {
            ticket := shr(128, calldataload(add(tickets.offset, shl(4, index))))
        }
    }

    /// @notice keccak256(0x00 ‖ uint32 position ‖ uint128 ticket)
    function leaf(uint32 position, uint128 ticket) internal pure returns (bytes32 node) {
        assembly ("memory-safe") {
            mstore(0x00, or(shl(216, position), shl(88, ticket)))
            node := keccak256(0x00, 0x15)
        }
    }

    /// @notice keccak256(0x01 ‖ left ‖ right)
    function parent(bytes32 left, bytes32 right) internal pure returns (bytes32 node) {
        assembly ("memory-safe") {
            let free := mload(0x40)
            mstore8(free, 1)
            mstore(add(free, 0x01), left)
            mstore(add(free, 0x21), right)
            node := keccak256(free, 0x41)
        }
    }

    /// @notice The partners of `position` among n clients in order: ascending, each once.
    /// @dev A node over [lo, hi) splits at mid = lo + ⌈(hi − lo)/2⌉. Left leaf j and right leaf min(j, right size − 1)
    /// are partners, and right leaf j and left leaf j; so the last right leaf has two left partners where the left is
    /// the larger.
    function partners(uint32 position, uint32 n) internal pure returns (uint32[] memory list) {
        if (position >= n) revert PositionOutOfRange(position, n);
        // ⌈log₂ 2³²⌉ levels, at most two partners at each.
        list = new uint32[](64);
        uint256 length = 0;
        uint256 lo = 0;
        uint256 hi = n;
        while (hi - lo > 1) {
            uint256 mid = lo + (hi - lo + 1) / 2;
            if (position < mid) {
                uint256 mirrored = position - lo + mid;
                length = _insert(list, length, mirrored < hi ? mirrored : hi - 1);
                hi = mid;
            } else {
                uint256 mirrored = position - mid + lo;
                length = _insert(list, length, mirrored);
                if (position == hi - 1 && mirrored + 1 < mid) length = _insert(list, length, mirrored + 1);
                lo = mid;
            }
        }
        assembly ("memory-safe") {
            mstore(list, length)
        }
    }

    /// @dev Inserts into the ascending head of `list`. Partners of different levels lie in different subtrees, so none
    /// comes twice.
    function _insert(uint32[] memory list, uint256 length, uint256 value) private pure returns (uint256) {
        uint256 slot = length;
        while (slot > 0 && list[slot - 1] > value) {
            list[slot] = list[slot - 1];
            --slot;
        }
        list[slot] = uint32(value);
        return length + 1;
    }
}
