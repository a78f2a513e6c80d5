// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice What every later transaction of a round needs, in one slot. Zero: no such round.
///
/// | bits    | field     | meaning                                                                          |
/// | ------- | --------- | -------------------------------------------------------------------------------- |
/// | 0-35    | openedAt  | block of the opening                                                             |
/// | 36-55   | rate      | sampling rate, per million                                                       |
/// | 56-59   | status    | {Status}                                                                         |
/// | 60      | follows   | whether the round before had closed and stood when this one was opened           |
/// | 61-76   | drawn     | accepted draws                                                                   |
/// | 77-95   | count     | Open: draws that end the draw phase, 0 for none; Drawn: end of it; then: commits |
/// | 96-255  | tail      | Open, Drawn: hash chain over the tickets; then the fields below                  |
/// | 96-111  | shared    | clients that shared                                                              |
/// | 112-191 | ends      | recorded ends of draw, seal, share and commit, 20 bits each; 0 for none          |
/// | 192-207 | released  | clients that released shares                                                     |
/// | 212-247 | endedAt   | block in which the round ended                                                   |
///
/// Ends are counted from the opening. They fit, as draws end at the latest {LONGEST_DRAW} blocks after it, and four
/// windows of at most 65,535 blocks follow.
type RoundState is uint256;

/// @dev What has been recorded of a round; the phase follows from it and the block number.
enum Status {
    None,
    Open,
    Drawn,
    Sealed,
    Closed,
    Skipped,
    Failed,
    Voided
}

/// @dev Where the recorded end of a phase begins.
uint256 constant DRAW_END = 112;
uint256 constant SEAL_END = 132;
uint256 constant SHARE_END = 152;
uint256 constant COMMIT_END = 172;
/// @dev For how many blocks after its opening a round of all members can wait for its quorum.
uint256 constant LONGEST_DRAW = (1 << 19) - 1;
uint256 constant FOLLOWS = 1 << 60;

using {
    openedAt,
    samplingRate,
    status,
    followsClosed,
    isWithin,
    drawn,
    awaited,
    shared,
    committed,
    released,
    chainLink,
    drawEnd,
    recordedEnd,
    endedAt,
    withDraw,
    withShare,
    withCommit,
    withDrawEnd,
    withEnd,
    withSeal,
    withRelease,
    ended
} for RoundState global;

function newRoundState(uint256 blockNumber, uint256 rate, bool follows, uint256 awaitedDraws)
    pure
    returns (RoundState)
{
    uint256 word = blockNumber | (rate << 36) | (uint256(Status.Open) << 56) | (awaitedDraws << 77);
    return RoundState.wrap(follows ? word | FOLLOWS : word);
}

function openedAt(RoundState state) pure returns (uint256) {
    return RoundState.unwrap(state) & 0xfffffffff;
}

function samplingRate(RoundState state) pure returns (uint32) {
    return uint32((RoundState.unwrap(state) >> 36) & 0xfffff);
}

function status(RoundState state) pure returns (Status) {
    return Status((RoundState.unwrap(state) >> 56) & 0xf);
}

/// @dev Whether the round trains from the model with which the round before closed.
function followsClosed(RoundState state) pure returns (bool) {
    return RoundState.unwrap(state) & FOLLOWS != 0;
}

/// @dev Whether the round has this status, which is not None, and `blockNumber` is in the window of blocks
/// (`opens`, `ends`], counted from the opening. Without branches, as every transaction of a client asks it.
function isWithin(RoundState state, Status expected, uint256 opens, uint256 ends, uint256 blockNumber)
    pure
    returns (bool inside)
{
    assembly ("memory-safe") {
        // Before the window the difference wraps around to a number above any length.
        let since := sub(sub(sub(blockNumber, and(state, 0xfffffffff)), opens), 1)
        inside := and(eq(and(state, shl(56, 0xf)), shl(56, expected)), lt(since, sub(ends, opens)))
    }
}

function drawn(RoundState state) pure returns (uint16) {
    return uint16(RoundState.unwrap(state) >> 61);
}

/// @dev Draws at which the draw phase ends; 0 where its window ends it. Meaningful while the round is Open.
function awaited(RoundState state) pure returns (uint256) {
    return _count(state);
}

function released(RoundState state) pure returns (uint16) {
    return uint16(RoundState.unwrap(state) >> 192);
}

/// @dev Meaningful until the round is sealed.
function chainLink(RoundState state) pure returns (uint160) {
    return uint160(RoundState.unwrap(state) >> 96);
}

/// @dev Meaningful once the round is sealed or ended, like {committed} and {released}.
function shared(RoundState state) pure returns (uint16) {
    return uint16(RoundState.unwrap(state) >> 96);
}

function committed(RoundState state) pure returns (uint16) {
    return uint16(_count(state));
}

/// @dev The recorded end of the draw phase, 0 for none.
function drawEnd(RoundState state) pure returns (uint256) {
    return state.status() == Status.Drawn ? _count(state) : state.recordedEnd(DRAW_END);
}

/// @dev The recorded end of a phase, 0 for none; before the sealing there is none but {drawEnd}. Without branches, as
/// every transaction of a client asks it.
function recordedEnd(RoundState state, uint256 place) pure returns (uint256 end) {
    uint256 drawnStatus = uint256(Status.Drawn);
    assembly ("memory-safe") {
        end := mul(gt(and(shr(56, state), 0xf), drawnStatus), and(shr(place, state), 0xfffff))
    }
}

/// @dev Meaningful once the round has ended.
function endedAt(RoundState state) pure returns (uint256) {
    return (RoundState.unwrap(state) >> 212) & 0xfffffffff;
}

/// @dev One more draw. NOTE: callers keep `drawn` below 65,535.
function withDraw(RoundState state, uint160 link) pure returns (RoundState) {
    unchecked {
        uint256 head = uint256(uint96(RoundState.unwrap(state))) + (1 << 61);
        return RoundState.wrap(head | (uint256(link) << 96));
    }
}

/// @dev The draw phase ended with block `blockNumber`, as nobody is left to draw.
function withDrawEnd(RoundState state, uint256 blockNumber) pure returns (RoundState) {
    uint256 word = RoundState.unwrap(state) & ~(uint256(0x7ffff) << 77);
    return _withStatus(RoundState.wrap(word | ((blockNumber - state.openedAt()) << 77)), Status.Drawn);
}

/// @dev The order is fixed in block `blockNumber`. Drops the hash chain.
function withSeal(RoundState state, uint256 blockNumber) pure returns (RoundState) {
    return _withStatus(_withoutChain(state), Status.Sealed).withEnd(SEAL_END, blockNumber);
}

/// @dev One more client shared. NOTE: no overflow, since at most `drawn` clients share.
function withShare(RoundState state) pure returns (RoundState) {
    unchecked {
        return RoundState.wrap(RoundState.unwrap(state) + (1 << 96));
    }
}

/// @dev One more commitment. NOTE: no overflow, since at most `drawn` clients commit.
function withCommit(RoundState state) pure returns (RoundState) {
    unchecked {
        return RoundState.wrap(RoundState.unwrap(state) + (1 << 77));
    }
}

/// @dev A phase of a sealed round, whose end was not recorded before, ended with block `blockNumber`.
function withEnd(RoundState state, uint256 place, uint256 blockNumber) pure returns (RoundState) {
    return RoundState.wrap(RoundState.unwrap(state) | ((blockNumber - state.openedAt()) << place));
}

/// @dev One more client released shares. NOTE: no overflow, since at most `drawn` clients release.
function withRelease(RoundState state) pure returns (RoundState) {
    unchecked {
        return RoundState.wrap(RoundState.unwrap(state) + (1 << 192));
    }
}

/// @dev A final status, reached in block `blockNumber`.
function ended(RoundState state, Status last, uint256 blockNumber) pure returns (RoundState) {
    RoundState rest = state.status() < Status.Sealed ? _withoutChain(state) : state;
    uint256 word = RoundState.unwrap(_withStatus(rest, last)) & ~(uint256(0xfffffffff) << 212);
    return RoundState.wrap(word | (blockNumber << 212));
}

function _count(RoundState state) pure returns (uint256) {
    return (RoundState.unwrap(state) >> 77) & 0x7ffff;
}

function _withStatus(RoundState state, Status next) pure returns (RoundState) {
    return RoundState.wrap((RoundState.unwrap(state) & ~(uint256(0xf) << 56)) | (uint256(next) << 56));
}

/// @dev Puts the end of the draws where the fields of a sealed round are, in place of the hash chain.
function _withoutChain(RoundState state) pure returns (RoundState) {
    uint256 head = RoundState.unwrap(state) & ((1 << 77) - 1);
    return RoundState.wrap(head | (state.drawEnd() << DRAW_END));
}
