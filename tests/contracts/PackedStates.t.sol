// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {
    AFFIRMED,
    ClientState,
    COMMITTED,
    MADE_MODEL,
    MOST_STAGES,
    RELEASED,
    SHARED,
    stageFlag,
    VOUCHED
} from "../../contracts/ledger/ClientState.sol";
import {
    COMMIT_END,
    DRAW_END,
    LONGEST_DRAW,
    newRoundState,
    RoundState,
    SEAL_END,
    SHARE_END,
    Status
} from "../../contracts/ledger/RoundState.sol";
import {AFFIRM_END, VOUCH_END, VouchState} from "../../contracts/ledger/VouchState.sol";

/// @notice The words of rounds and clients: no field runs into another, whatever their values.
contract PackedStatesTest {
    uint256 private constant LAST_BLOCK = (1 << 36) - 1;
    uint16 private constant MOST = type(uint16).max;

    // --- rounds ---

    function testFuzz_ANewRound_SaysWithWhatItOpened(uint64 block_, uint32 rate, bool follows, uint16 awaited)
        public
        pure
    {
        rate %= 1_000_001;
        block_ &= uint64(LAST_BLOCK);
        RoundState state = newRoundState(block_, rate, follows, awaited);
        require(state.openedAt() == block_ && state.samplingRate() == rate, "opening");
        require(state.followsClosed() == follows && state.awaited() == awaited, "what follows");
        require(state.status() == Status.Open && state.drawn() == 0 && state.chainLink() == 0, "no draws");
        require(state.drawEnd() == 0 && state.recordedEnd(SEAL_END) == 0, "no ends");
    }

    function testFuzz_TheLastDraw_LeavesTheRestAlone(uint160 first, uint160 second) public pure {
        RoundState state = _withDrawn(newRoundState(LAST_BLOCK, 1_000_000, true, MOST), MOST - 1, first);
        require(state.drawn() == MOST - 1 && state.chainLink() == first, "draws");
        state = state.withDraw(second);
        require(state.drawn() == MOST && state.chainLink() == second && state.awaited() == MOST, "draws");
        require(state.openedAt() == LAST_BLOCK && state.samplingRate() == 1_000_000, "opening");
        require(state.followsClosed() && state.status() == Status.Open, "opening");
    }

    /// @dev The longest draws, and then the longest windows.
    function test_TheEnds_HaveRoomForTheLongestRound() public pure {
        uint256 openedAt = LAST_BLOCK - (1 << 21);
        RoundState state = _withDrawn(newRoundState(openedAt, 1, false, 0), MOST, type(uint160).max);
        uint256 end = LONGEST_DRAW;
        state = state.withDrawEnd(openedAt + end);
        require(state.status() == Status.Drawn && state.drawEnd() == end, "draw end");
        require(state.drawn() == MOST && state.chainLink() == type(uint160).max, "draws");
        uint256 sealEnd = end + 2 * uint256(MOST);
        state = state.withSeal(openedAt + sealEnd);
        require(state.committed() == 0 && state.shared() == 0 && state.released() == 0, "no records");
        uint256 shareEnd = sealEnd + MOST;
        uint256 commitEnd = shareEnd + MOST;
        state = state.withEnd(SHARE_END, openedAt + shareEnd).withEnd(COMMIT_END, openedAt + commitEnd);
        _hasEnds(state, end, sealEnd, shareEnd, commitEnd);
        state = state.ended(Status.Failed, LAST_BLOCK);
        _hasEnds(state, end, sealEnd, shareEnd, commitEnd);
        require(state.endedAt() == LAST_BLOCK && state.drawn() == MOST && state.openedAt() == openedAt, "the end");
    }

    /// @dev One more than 65,534 of each, while all else is as large as it can be.
    function test_TheCounts_HaveRoomForAllWhoDrew() public pure {
        RoundState state = _withDrawn(newRoundState(0, 1_000_000, true, 0), MOST, type(uint160).max);
        state = state.withDrawEnd(LONGEST_DRAW).withSeal((1 << 20) - 1).withEnd(SHARE_END, (1 << 20) - 1)
            .withEnd(COMMIT_END, (1 << 20) - 1);
        state = RoundState.wrap(
            RoundState.unwrap(state) | (uint256(MOST - 1) << 77) | (uint256(MOST - 1) << 96)
                | (uint256(MOST - 1) << 192)
        );
        state = state.withShare().withCommit().withRelease();
        require(state.shared() == MOST && state.committed() == MOST && state.released() == MOST, "records");
        _hasEnds(state, LONGEST_DRAW, (1 << 20) - 1, (1 << 20) - 1, (1 << 20) - 1);
        require(state.drawn() == MOST && state.status() == Status.Sealed && state.followsClosed(), "the rest");
        RoundState closed = state.ended(Status.Closed, LAST_BLOCK);
        require(closed.released() == MOST && closed.committed() == MOST && closed.endedAt() == LAST_BLOCK, "closed");
    }

    function testFuzz_AReleaseAfterTheClosing_LeavesItsBlockAlone(uint64 closing, uint64 voiding) public pure {
        closing &= uint64(LAST_BLOCK);
        voiding &= uint64(LAST_BLOCK);
        RoundState state = _withDrawn(newRoundState(0, 1, false, 0), 9, 0).withDrawEnd(1).withSeal(2);
        state = state.ended(Status.Closed, closing).withRelease().withRelease();
        require(state.status() == Status.Closed && state.endedAt() == closing && state.released() == 2, "closed");
        state = state.ended(Status.Voided, voiding);
        require(state.status() == Status.Voided && state.endedAt() == voiding && state.released() == 2, "void");
    }

    /// @dev What is left of a round that was never sealed is the end of its draws; the chain is gone.
    function testFuzz_ARoundThatEndsUnsealed_KeepsNothingOfItsChain(uint160 link, uint32 end, bool isDrawn) public pure {
        end %= uint32(LONGEST_DRAW + 1);
        RoundState state = _withDrawn(newRoundState(7, 1, false, 3), 2, link);
        if (isDrawn) state = state.withDrawEnd(7 + uint256(end));
        state = state.ended(Status.Skipped, 100);
        require(state.drawEnd() == (isDrawn ? end : 0) && state.drawn() == 2, "draws");
        require(state.shared() == 0 && state.released() == 0 && state.endedAt() == 100, "no records");
        require(state.recordedEnd(SEAL_END) == 0 && state.recordedEnd(COMMIT_END) == 0, "no ends");
    }

    function testFuzz_IsWithin_IsTheWindowAndNoBlockMore(uint64 openedAt, uint16 opens, uint16 length, uint64 block_)
        public
        pure
    {
        openedAt &= uint64(LAST_BLOCK);
        // As often near the window as anywhere.
        block_ = block_ & 1 == 0 ? block_ & uint64(LAST_BLOCK) : openedAt + (block_ >> 1) % (1 << 18);
        RoundState state = newRoundState(openedAt, 1, false, 0);
        uint256 first = uint256(openedAt) + opens;
        uint256 ends = uint256(opens) + length;
        bool expected = block_ > first && block_ <= first + length;
        require(state.isWithin(Status.Open, opens, ends, block_) == expected, "any block");
        require(!state.isWithin(Status.Open, opens, ends, first), "before");
        require(state.isWithin(Status.Open, opens, ends, first + length) == (length != 0), "last");
        require(!state.isWithin(Status.Open, opens, ends, first + length + 1), "after");
        require(!state.isWithin(Status.Sealed, opens, ends, first + 1), "another status");
    }

    // --- bounds ---

    /// @dev One more of each while all else is as large as it can be; the ends with the longest windows.
    function testFuzz_WhatBoundsAdd_HasRoomForAll(uint16 vouchers, uint16 affirmations, uint64 block_) public pure {
        vouchers %= MOST;
        affirmations %= MOST;
        block_ &= uint64(LAST_BLOCK);
        uint256 end = LONGEST_DRAW + 7 * uint256(MOST);
        require(end < 1 << 20, "the ends have 20 bits");
        uint256 ends = (end << VOUCH_END) | ((end - 1) << AFFIRM_END);
        uint256 counts = uint256(vouchers) | (uint256(affirmations) << 16);
        VouchState state = VouchState.wrap(counts | (uint256(MOST - 1) << 72) | ends | (uint256(MOST_STAGES - 1) << 88));
        state = state.withVouch().withAffirm().withStageRelease();
        require(state.vouched() == uint256(vouchers) + 1 && state.affirmed() == uint256(affirmations) + 1, "counts");
        require(state.releasedInStage() == MOST && state.stage() == MOST_STAGES - 1 && state.stageAt() == 0, "stage");
        state = state.withStage(block_);
        require(state.releasedInStage() == 0 && state.stage() == MOST_STAGES && state.stageAt() == block_, "stage");
        require(state.vouched() == uint256(vouchers) + 1 && state.affirmed() == uint256(affirmations) + 1, "counts");
        require(state.recordedEnd(VOUCH_END) == end && state.recordedEnd(AFFIRM_END) == end - 1, "ends");
    }

    function testFuzz_AnEnd_LeavesTheOtherAlone(uint32 vouch, uint32 affirm) public pure {
        (vouch, affirm) = (vouch % (1 << 20), affirm % (1 << 20));
        VouchState state = VouchState.wrap(0).withVouch().withEnd(VOUCH_END, vouch).withAffirm();
        require(state.recordedEnd(AFFIRM_END) == 0, "no end");
        state = state.withEnd(AFFIRM_END, affirm);
        require(state.recordedEnd(VOUCH_END) == vouch && state.recordedEnd(AFFIRM_END) == affirm, "ends");
        require(state.vouched() == 1 && state.affirmed() == 1 && state.stage() == 0, "the rest");
    }

    // --- clients ---

    function testFuzz_RevealsAndStages_AreOfTheRound(uint40 round, uint40 idle, uint128 ticket, uint8 stage) public pure {
        stage = 1 + stage % uint8(MOST_STAGES);
        ClientState state = ClientState.wrap(0).withIdle(idle).withDraw(round, ticket, false);
        for (uint256 k = 0; k < 15; ++k) {
            require(state.reveals() == k, "reveals");
            state = state.withReveal();
        }
        for (uint256 k = 1; k <= MOST_STAGES; ++k) {
            if (k != stage) state = state.withFlag(stageFlag(k));
        }
        require(!state.has(stageFlag(stage)), "another stage");
        state = state.withFlag(stageFlag(stage)).withFlag(VOUCHED).withFlag(AFFIRMED);
        require(state.reveals() == 15 && state.has(stageFlag(stage)) && state.has(VOUCHED | AFFIRMED), "kept");
        require(state.idleIn() == idle && state.drawRound() == round && state.prefix() == ticket >> 32, "the rest");
        require(state.client() == uint32(ticket) && !state.has(SHARED | COMMITTED | RELEASED | MADE_MODEL), "flags");
        state = state.withDraw(round, ticket, false);
        require(state.reveals() == 0 && !state.has(VOUCHED | AFFIRMED | stageFlag(stage)), "flags of before");
    }

    function testFuzz_ADraw_KeepsWhenTheClientWasIdle_AndNoFlagOfBefore(
        uint40 round,
        uint40 idle,
        uint128 ticket,
        bool madeModel
    ) public pure {
        ClientState state = ClientState.wrap(0).withDraw(type(uint40).max, type(uint128).max, true);
        state = state.withFlag(SHARED).withFlag(COMMITTED).withFlag(RELEASED).withIdle(idle);
        require(state.idleIn() == idle && state.drawRound() == type(uint40).max, "idle");
        require(state.prefix() == type(uint96).max && state.client() == type(uint32).max, "ticket");
        require(state.has(SHARED) && state.has(COMMITTED) && state.has(RELEASED) && state.has(MADE_MODEL), "flags");
        state = state.withDraw(round, ticket, madeModel);
        require(state.idleIn() == idle && state.drawRound() == round, "rounds");
        require(state.prefix() == ticket >> 32 && state.client() == uint32(ticket), "ticket");
        require(!state.has(SHARED) && !state.has(COMMITTED) && !state.has(RELEASED), "flags of before");
        require(state.has(MADE_MODEL) == madeModel, "made the model");
    }

    function testFuzz_IsAt_AsksForTheRoundAndTheFlags(uint40 round, uint40 other, uint8 flags, uint8 asked, uint8 mask)
        public
        pure
    {
        flags &= 15;
        mask &= 15;
        asked &= mask;
        ClientState state = ClientState.wrap(0).withDraw(round, 5, false);
        state = state.withFlag(uint256(flags) << 72).withIdle(other);
        bool expected = flags & mask == asked;
        require(state.isAt(round, uint256(asked) << 72, uint256(mask) << 72) == expected, "its round");
        if (other != round) require(!state.isAt(other, uint256(asked) << 72, uint256(mask) << 72), "another round");
    }

    function _withDrawn(RoundState state, uint16 count, uint160 link) private pure returns (RoundState) {
        return RoundState.wrap(RoundState.unwrap(state) | (uint256(count) << 61) | (uint256(link) << 96));
    }

    function _hasEnds(RoundState state, uint256 draw, uint256 seal, uint256 share, uint256 commit) private pure {
        require(state.recordedEnd(DRAW_END) == draw && state.drawEnd() == draw, "draw end");
        require(state.recordedEnd(SEAL_END) == seal && state.recordedEnd(SHARE_END) == share, "ends");
        require(state.recordedEnd(COMMIT_END) == commit, "commit end");
    }
}
