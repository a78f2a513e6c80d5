// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice What a round with bounds needs beside {RoundState} once the commits are over, in one slot. Zero: nothing
/// yet, or a federation without bounds.
///
/// | bits    | field     | meaning                                                                          |
/// | ------- | --------- | -------------------------------------------------------------------------------- |
/// | 0-15    | vouched   | clients that vouched                                                             |
/// | 16-31   | affirmed  | clients that affirmed                                                            |
/// | 32-71   | ends      | recorded ends of vouch and affirm, 20 bits each, counted from the opening; or 0  |
/// | 72-87   | released  | clients that released shares in the latest stage, where that is not stage 0      |
/// | 88-95   | stage     | the latest stage in which somebody released                                      |
/// | 96-131  | stageAt   | block of the first release of that stage, 0 for stage 0                          |
type VouchState is uint256;

/// @dev Where the recorded end of a phase begins.
uint256 constant VOUCH_END = 32;
uint256 constant AFFIRM_END = 52;

using {
    vouched,
    affirmed,
    recordedEnd,
    releasedInStage,
    stage,
    stageAt,
    withVouch,
    withAffirm,
    withEnd,
    withStage,
    withStageRelease
} for VouchState global;

function vouched(VouchState state) pure returns (uint16) {
    return uint16(VouchState.unwrap(state));
}

function affirmed(VouchState state) pure returns (uint16) {
    return uint16(VouchState.unwrap(state) >> 16);
}

/// @dev The recorded end of a phase, 0 for none.
function recordedEnd(VouchState state, uint256 place) pure returns (uint256) {
    return (VouchState.unwrap(state) >> place) & 0xfffff;
}

function releasedInStage(VouchState state) pure returns (uint16) {
    return uint16(VouchState.unwrap(state) >> 72);
}

function stage(VouchState state) pure returns (uint8) {
    return uint8(VouchState.unwrap(state) >> 88);
}

function stageAt(VouchState state) pure returns (uint256) {
    return (VouchState.unwrap(state) >> 96) & 0xfffffffff;
}

/// @dev One more voucher. NOTE: no overflow, since at most as many vouch as committed; the same holds below.
function withVouch(VouchState state) pure returns (VouchState) {
    unchecked {
        return VouchState.wrap(VouchState.unwrap(state) + 1);
    }
}

function withAffirm(VouchState state) pure returns (VouchState) {
    unchecked {
        return VouchState.wrap(VouchState.unwrap(state) + (1 << 16));
    }
}

/// @dev A phase, whose end was not recorded before, ended so many blocks after the opening.
function withEnd(VouchState state, uint256 place, uint256 elapsed) pure returns (VouchState) {
    return VouchState.wrap(VouchState.unwrap(state) | (elapsed << place));
}

/// @dev The next stage begins with block `blockNumber`; nobody is counted in it yet.
function withStage(VouchState state, uint256 blockNumber) pure returns (VouchState) {
    uint256 next = uint256(state.stage()) + 1;
    return VouchState.wrap((VouchState.unwrap(state) & ((1 << 72) - 1)) | (next << 88) | (blockNumber << 96));
}

function withStageRelease(VouchState state) pure returns (VouchState) {
    unchecked {
        return VouchState.wrap(VouchState.unwrap(state) + (1 << 72));
    }
}
