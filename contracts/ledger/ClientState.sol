// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice What the ledger remembers of an account, in one slot that is reused from round to round.
///
/// | bits    | field        | meaning                                                                       |
/// | ------- | ------------ | ----------------------------------------------------------------------------- |
/// | 0-31    | client       | index in the registry; 0 before the first draw                                |
/// | 32-71   | round        | round of the latest draw                                                      |
/// | 72-79   | flags        | of `round`: SHARED … RELEASED, VOUCHED, AFFIRMED; before: MADE_MODEL          |
/// | 80-119  | idleIn       | latest round whose opening listed the client as idle                          |
/// | 120-123 | reveals      | how often the client revealed in `round`                                      |
/// | 124-155 | stages       | in which stages after the first, from 1, the client released shares in `round` |
/// | 160-255 | prefix       | top 96 bits of the VRF output of `round`                                      |
type ClientState is uint256;

uint256 constant SHARED = 1 << 72;
uint256 constant COMMITTED = 1 << 73;
uint256 constant RELEASED = 1 << 74;
/// @dev Kept, so that the closing that made the model from which `round` trains can still be judged. It may lie further
/// back than one round, as rounds without a model may follow it.
uint256 constant MADE_MODEL = 1 << 75;
uint256 constant VOUCHED = 1 << 76;
uint256 constant AFFIRMED = 1 << 77;
/// @dev The highest stage that there is room for.
uint256 constant MOST_STAGES = 32;
/// @dev The bits of `idleIn`, which a draw leaves as they are.
uint256 constant IDLE_MASK = ((1 << 40) - 1) << 80;
uint256 constant ROUND_MASK = ((1 << 40) - 1) << 32;

using {
    client,
    drawRound,
    idleIn,
    has,
    isAt,
    reveals,
    prefix,
    withFlag,
    withReveal,
    withDraw,
    withIdle,
    madeModelOf
} for ClientState global;

function client(ClientState state) pure returns (uint32) {
    return uint32(ClientState.unwrap(state));
}

function drawRound(ClientState state) pure returns (uint64) {
    return uint40(ClientState.unwrap(state) >> 32);
}

function idleIn(ClientState state) pure returns (uint64) {
    return uint40(ClientState.unwrap(state) >> 80);
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

function reveals(ClientState state) pure returns (uint256) {
    return (ClientState.unwrap(state) >> 120) & 0xf;
}

/// @dev The flag of a release in a stage, 1 to {MOST_STAGES}.
function stageFlag(uint256 stage) pure returns (uint256) {
    return 1 << (123 + stage);
}

function prefix(ClientState state) pure returns (uint96) {
    return uint96(ClientState.unwrap(state) >> 160);
}

function withFlag(ClientState state, uint256 flag) pure returns (ClientState) {
    return ClientState.wrap(ClientState.unwrap(state) | flag);
}

/// @dev NOTE: callers keep `reveals` below 16.
function withReveal(ClientState state) pure returns (ClientState) {
    unchecked {
        return ClientState.wrap(ClientState.unwrap(state) + (1 << 120));
    }
}

/// @dev The state after a draw in `round`, whose ticket holds both the prefix and the index.
/// @param madeModel whether the client committed in the round from whose model `round` trains
function withDraw(ClientState state, uint64 round, uint128 ticket, bool madeModel) pure returns (ClientState) {
    uint256 word = ClientState.unwrap(state) & IDLE_MASK;
    word |= uint32(ticket) | (uint256(round) << 32) | (uint256(ticket >> 32) << 160);
    return ClientState.wrap(madeModel ? word | MADE_MODEL : word);
}

/// @dev The state after the opening of `round` listed the client as idle.
function withIdle(ClientState state, uint64 round) pure returns (ClientState) {
    return ClientState.wrap((ClientState.unwrap(state) & ~IDLE_MASK) | (uint256(round) << 80));
}

/// @dev Whether the client committed in `round`, which closed, and since whose closing no other round closed.
function madeModelOf(ClientState state, uint64 round) pure returns (bool) {
    uint64 latest = state.drawRound();
    return round != 0 && latest >= round && state.has(latest == round ? COMMITTED : MADE_MODEL);
}
