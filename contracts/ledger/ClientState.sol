// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice What the ledger remembers of an account, in one slot that is reused from round to round.
///
/// | bits    | field        | meaning                                                                       |
/// | ------- | ------------ | ----------------------------------------------------------------------------- |
/// | 0-31    | client       | index in the registry; 0 before the first draw                                |
/// | 32-71   | round        | round of the latest draw                                                      |
/// | 72-79   | flags        | of `round`: SHARED, COMMITTED, RELEASED; before: BEFORE_…, MADE_MODEL         |
/// | 80-119  | sitsOutUntil | last round that the client sits out                                           |
/// | 120-159 | reported     | latest round for which an absence was counted                                 |
/// | 160-255 | prefix       | top 96 bits of the VRF output of `round`                                      |
type ClientState is uint256;

uint256 constant SHARED = 1 << 72;
uint256 constant COMMITTED = 1 << 73;
uint256 constant RELEASED = 1 << 74;
/// @dev Kept, so that an absence of round t can still be counted when the client has drawn in t + 1.
uint256 constant BEFORE_DRAWN = 1 << 75;
uint256 constant BEFORE_COMMITTED = 1 << 76;
/// @dev Kept, so that the closing that made the model from which `round` trains can still be disputed. It may lie
/// further back than one round, as rounds without a model may follow it.
uint256 constant MADE_MODEL = 1 << 77;
/// @dev The bits of `sitsOutUntil` and `reported`, which a draw leaves as they are.
uint256 constant ABSENCE_MASK = ((1 << 80) - 1) << 80;
uint256 constant ROUND_MASK = ((1 << 40) - 1) << 32;

using {
    client,
    drawRound,
    sitsOutUntil,
    reported,
    has,
    isAt,
    prefix,
    withFlag,
    withDraw,
    withAbsence,
    drewIn,
    committedIn,
    madeModelOf
} for ClientState global;

function client(ClientState state) pure returns (uint32) {
    return uint32(ClientState.unwrap(state));
}

function drawRound(ClientState state) pure returns (uint64) {
    return uint40(ClientState.unwrap(state) >> 32);
}

function sitsOutUntil(ClientState state) pure returns (uint64) {
    return uint40(ClientState.unwrap(state) >> 80);
}

function reported(ClientState state) pure returns (uint64) {
    return uint40(ClientState.unwrap(state) >> 120);
}

function has(ClientState state, uint256 flag) pure returns (bool) {
    return ClientState.unwrap(state) & flag != 0;
}

/// @dev Whether the latest draw was in `round` and of the flags in `mask` exactly `flags` are set.
function isAt(ClientState state, uint64 round, uint256 flags, uint256 mask) pure returns (bool yes) {
    uint256 roundMask = ROUND_MASK;
    assembly ("memory-safe") {
        yes := eq(and(state, or(roundMask, mask)), or(shl(32, round), flags))
    }
}

function prefix(ClientState state) pure returns (uint96) {
    return uint96(ClientState.unwrap(state) >> 160);
}

function withFlag(ClientState state, uint256 flag) pure returns (ClientState) {
    return ClientState.wrap(ClientState.unwrap(state) | flag);
}

/// @dev The state after a draw in `round`, whose ticket holds both the prefix and the index.
/// @param madeModel whether the client committed in the round from whose model `round` trains
function withDraw(ClientState state, uint64 round, uint128 ticket, bool madeModel) pure returns (ClientState) {
    uint256 word = ClientState.unwrap(state) & ABSENCE_MASK;
    word |= uint32(ticket) | (uint256(round) << 32) | (uint256(ticket >> 32) << 160);
    uint64 before;
    unchecked {
        before = round - 1; // rounds count from 1
    }
    // Round 0 is that of a client that never drew.
    if (before != 0 && state.drawRound() == before) {
        word |= BEFORE_DRAWN | (state.has(COMMITTED) ? BEFORE_COMMITTED : 0);
    }
    return ClientState.wrap(madeModel ? word | MADE_MODEL : word);
}

/// @dev The state after an absence in `round` was counted.
function withAbsence(ClientState state, uint64 round, uint64 until) pure returns (ClientState) {
    uint256 word = ClientState.unwrap(state) & ~ABSENCE_MASK;
    return ClientState.wrap(word | (uint256(until) << 80) | (uint256(round) << 120));
}

/// @dev Whether the client drew in `round`, which is that of its latest draw or the one before.
function drewIn(ClientState state, uint64 round) pure returns (bool) {
    uint64 latest = state.drawRound();
    return latest == round ? round != 0 : latest == round + 1 && state.has(BEFORE_DRAWN);
}

/// @dev Whether the client committed in `round`, which is that of its latest draw or the one before.
function committedIn(ClientState state, uint64 round) pure returns (bool) {
    return state.has(state.drawRound() == round ? COMMITTED : BEFORE_COMMITTED);
}

/// @dev Whether the client committed in `round`, which closed, and since whose closing no other round closed.
function madeModelOf(ClientState state, uint64 round) pure returns (bool) {
    uint64 latest = state.drawRound();
    return round != 0 && latest >= round && state.has(latest == round ? COMMITTED : MADE_MODEL);
}
