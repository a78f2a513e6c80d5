// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice What every later transaction of a round needs, in one slot. Zero: no such round.
///
/// | bits    | field     | meaning                                                                          |
/// | ------- | --------- | -------------------------------------------------------------------------------- |
/// | 0-39    | openedAt  | block of the opening                                                             |
/// | 40-59   | rate      | sampling rate, per million                                                       |
/// | 60-62   | status    | {Status}                                                                         |
/// | 63      | follows   | whether the round before had closed and stood when this one was opened           |
/// | 64-79   | drawn     | accepted draws                                                                   |
/// | 80-95   | committed | accepted commitments                                                             |
/// | 96-255  | tail      | until sealed: hash chain over the tickets; recovered or ended: block of that     |
type RoundState is uint256;

/// @dev What has been recorded of a round; the phase follows from it and the block number.
enum Status {
    None,
    Open,
    Sealed,
    Recovered,
    Closed,
    Skipped,
    Failed,
    Voided
}

using {
    openedAt,
    samplingRate,
    status,
    followsClosed,
    isWithin,
    drawn,
    committed,
    chainLink,
    changedAt,
    withDraw,
    withCommit,
    withStatus
} for RoundState global;

uint256 constant FOLLOWS = 1 << 63;

function newRoundState(uint256 blockNumber, uint256 rate, bool follows) pure returns (RoundState) {
    return RoundState.wrap(blockNumber | (rate << 40) | (uint256(Status.Open) << 60) | (follows ? FOLLOWS : 0));
}

function openedAt(RoundState state) pure returns (uint256) {
    return RoundState.unwrap(state) & 0xffffffffff;
}

function samplingRate(RoundState state) pure returns (uint32) {
    return uint32((RoundState.unwrap(state) >> 40) & 0xfffff);
}

function status(RoundState state) pure returns (Status) {
    return Status((RoundState.unwrap(state) >> 60) & 0x7);
}

/// @dev Whether the round trains from the model with which the round before closed.
function followsClosed(RoundState state) pure returns (bool) {
    return RoundState.unwrap(state) & FOLLOWS != 0;
}

/// @dev Whether the round has this status, which is not None, and `blockNumber` is one of the `length` blocks from
/// `first` on, counted from the opening. Without branches, as every transaction of a client asks it.
function isWithin(RoundState state, Status expected, uint256 first, uint256 length, uint256 blockNumber)
    pure
    returns (bool inside)
{
    assembly ("memory-safe") {
        // Before `first` the difference wraps around to a number above any length.
        let since := sub(sub(blockNumber, and(state, 0xffffffffff)), first)
        inside := and(eq(and(state, shl(60, 0x7)), shl(60, expected)), lt(since, length))
    }
}

function drawn(RoundState state) pure returns (uint16) {
    return uint16(RoundState.unwrap(state) >> 64);
}

function committed(RoundState state) pure returns (uint16) {
    return uint16(RoundState.unwrap(state) >> 80);
}

/// @dev Meaningful until the round is sealed.
function chainLink(RoundState state) pure returns (uint160) {
    return uint160(RoundState.unwrap(state) >> 96);
}

/// @dev Block of the last change of status; meaningful once the round is sealed or ended.
function changedAt(RoundState state) pure returns (uint256) {
    return RoundState.unwrap(state) >> 96;
}

/// @dev One more draw. NOTE: callers keep `drawn` below 65,535.
function withDraw(RoundState state, uint160 link) pure returns (RoundState) {
    unchecked {
        uint256 head = uint256(uint96(RoundState.unwrap(state))) + (1 << 64);
        return RoundState.wrap(head | (uint256(link) << 96));
    }
}

/// @dev One more commitment. NOTE: no overflow, since at most `drawn` clients commit.
function withCommit(RoundState state) pure returns (RoundState) {
    unchecked {
        return RoundState.wrap(RoundState.unwrap(state) + (1 << 80));
    }
}

/// @dev Another status, reached in block `blockNumber`. Drops the hash chain.
function withStatus(RoundState state, Status next, uint256 blockNumber) pure returns (RoundState) {
    uint256 head = uint256(uint96(RoundState.unwrap(state))) & ~(uint256(0x7) << 60);
    return RoundState.wrap(head | (uint256(next) << 60) | (blockNumber << 96));
}
