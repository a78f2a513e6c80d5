// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Membership} from "../../contracts/interfaces/IClientRegistry.sol";
import {ITrainingLedger, Phase, Settings} from "../../contracts/interfaces/ITrainingLedger.sol";
import {JudgedFederation} from "./harness/JudgedFederation.sol";
import {vm} from "./harness/Vm.sol";

/// @notice What a majority of the clients that committed brings about, and whom it strikes.
contract ConsequencesTest is JudgedFederation {
    // --- what a majority brings about ---

    /// @dev With any number of clients that committed, and any of them, for any number of judges.
    function test_ARoundFails_ExactlyWhenMoreThanHalfAndTheJudgesSayThatNothingMayBeSummed() public {
        for (uint16 judges = 1; judges <= 3; ++judges) {
            _redeployFor(3, judges);
            for (uint256 survivors = 0; survivors < 5; ++survivors) {
                uint256 before = vm.snapshotState();
                uint64 round = _committed(4, survivors);
                for (uint256 who = 0; who < uint256(1) << survivors; ++who) {
                    uint256 committed = vm.snapshotState();
                    _judgedBy(round, survivors, judges, who);
                    vm.revertToState(committed);
                }
                vm.revertToState(before);
            }
        }
    }

    function _judgedBy(uint64 round, uint256 survivors, uint256 judges, uint256 who) private {
        (uint256 count, bool fails) = (0, false);
        for (uint256 i = 0; i < survivors && !fails; ++i) {
            if ((who >> i) & 1 == 0) continue;
            _judgeNothing(i, round);
            fails = ++count >= judges && 2 * count > survivors;
        }
        _inPhase(round, fails ? Phase.Failed : Phase.Recover);
        _equal(ledger.failedRounds(), fails ? 1 : 0, "failed rounds");
        _equal(ledger.currentModel(), MODEL, "model");
        require(!ledger.isStruck(COORDINATOR), "nobody has closed");
    }

    function test_AMajorityForNothing_VoidsTheClosing() public {
        uint64 round = _closed(4, 4);
        _judge(0, round, 0, 0);
        _judge(3, round, 0, 0);
        _stands(round, _modelOf(round));
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Judged(round, 3, Phase.Closed, 0, 0);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Voided(round, MODEL);
        _judge(2, round, 0, 0);
        _inPhase(round, Phase.Voided);
        _equal(ledger.currentModel(), MODEL, "model");
        _equal(ledger.lastClosed(), 0, "last closed");
        _equal(ledger.closedRounds(), 0, "closed rounds");
        _equal(ledger.failedRounds(), 0, "failed rounds");
        _equal(ledger.currentRound(), round, "current round");
        require(ledger.isStruck(COORDINATOR), "not struck");
        _refuses(1, round, Phase.Closed, 0, 0, _notJudgeable(round, 0));
    }

    function test_AMajorityForAnotherResult_TakesTheClosingsPlace() public {
        uint64 round = _closed(4, 4);
        _judge(0, round, RIGHT, RIGHT_METRICS);
        _judge(3, round, RIGHT, RIGHT_METRICS);
        _stands(round, _modelOf(round));
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Judged(round, 3, Phase.Closed, RIGHT, RIGHT_METRICS);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Replaced(round, RIGHT, RIGHT_METRICS);
        _judge(2, round, RIGHT, RIGHT_METRICS);
        _stands(round, RIGHT);
        _equal(ledger.closedRounds(), 1, "closed rounds");
        _equal(ledger.failedRounds(), 0, "failed rounds");
        require(ledger.isStruck(COORDINATOR), "not struck");
        vm.roll(vm.getBlockNumber() + 4);
        _refusesOpen(members[0].account, _modelOf(round), _wrongModel(_modelOf(round), RIGHT));
        _as(members[0].account);
        ledger.open(RIGHT, _nobody());
        _equal(ledger.round(round + 1).modelDigest, RIGHT, "the model trained from");
    }

    /// @dev They are counted for the pair, so votes for one model with various metrics replace nothing.
    function test_AMajority_IsOneForTheSamePair() public {
        uint64 round = _closed(4, 4);
        _judge(0, round, RIGHT, METRICS);
        _judge(1, round, RIGHT, RIGHT_METRICS);
        _judge(2, round, METRICS, RIGHT);
        _judge(3, round, RIGHT, METRICS);
        _stands(round, _modelOf(round));
        require(!ledger.isStruck(COORDINATOR), "struck");
    }

    function test_Confirmations_ChangeNothing() public {
        uint64 round = _closed(4, 4);
        uint64 running = _openAndDraw(3);
        for (uint256 i = 0; i < 4; ++i) {
            vm.expectEmit(address(ledger));
            emit ITrainingLedger.Judged(round, uint32(i + 1), Phase.Closed, _modelOf(round), METRICS);
            _judge(i, round, _modelOf(round), METRICS);
        }
        _stands(round, _modelOf(round));
        _inPhase(running, Phase.Draw);
        require(!ledger.isStruck(COORDINATOR), "struck");
    }

    /// @dev Once it stands it is what confirmations confirm, and what fell has no majority left.
    function test_AfterAReplacement_NothingElseFollows() public {
        uint64 round = _closed(4, 4);
        _replace(round, RIGHT, RIGHT_METRICS);
        uint64 running = _openByMember(1, RIGHT);
        vm.recordLogs();
        _judge(3, round, RIGHT, RIGHT_METRICS);
        _equal(vm.getRecordedLogs().length, 1, "events"); // that it judged
        _stands(round, RIGHT);
        _inPhase(running, Phase.Seeding);
        for (uint256 i = 0; i < 4; ++i) {
            _refuses(i, round, Phase.Closed, _modelOf(round), METRICS, _alreadyJudged(round, i + 1));
        }
    }

    /// @dev Each of four (or three) clients abstains, or says nothing, another result, or the closing's.
    function test_AClosingFalls_ExactlyWhenMoreThanHalfAndTheJudgesSayTheSame() public {
        for (uint16 judges = 1; judges <= 3; ++judges) {
            _redeployFor(3, judges);
            for (uint256 survivors = 3; survivors < 5; ++survivors) {
                uint256 before = vm.snapshotState();
                uint64 round = _closed(4, survivors);
                for (uint256 who = 0; who < uint256(1) << (2 * survivors); ++who) {
                    uint256 closed = vm.snapshotState();
                    _verdicts(round, survivors, judges, who);
                    vm.revertToState(closed);
                }
                vm.revertToState(before);
            }
        }
    }

    /// @dev Two bits of `who` say what each says.
    function _verdicts(uint64 round, uint256 survivors, uint256 judges, uint256 who) private {
        uint256[4] memory counts;
        uint256 decided = 0;
        for (uint256 i = 0; i < survivors; ++i) {
            uint256 verdict = (who >> (2 * i)) & 3;
            if (verdict == 0) continue;
            if (decided == 1) break; // void
            bytes32 model = verdict == 1 ? bytes32(0) : verdict == 2 ? RIGHT : _modelOf(round);
            _judge(i, round, model, verdict == 1 ? bytes32(0) : METRICS);
            if (++counts[verdict] >= judges && 2 * counts[verdict] > survivors) decided = verdict;
        }
        if (decided == 1) {
            _inPhase(round, Phase.Voided);
            _equal(ledger.currentModel(), MODEL, "model");
            _equal(ledger.lastClosed(), 0, "last closed");
        } else {
            _stands(round, decided == 2 ? RIGHT : _modelOf(round));
        }
        _equal(ledger.closedRounds(), decided == 1 ? 0 : 1, "closed rounds");
        require(ledger.isStruck(COORDINATOR) == (decided == 1 || decided == 2), "struck, or not");
    }

    /// @dev A majority of few is not enough where the settings ask for more judges.
    function test_FewerThanTheJudges_BringNothingAbout() public {
        _redeployFor(3, 3);
        uint64 round = _closed(4, 3);
        _judge(0, round, RIGHT, METRICS);
        _judge(1, round, RIGHT, METRICS); // more than half of three
        _stands(round, _modelOf(round));
        _judge(2, round, RIGHT, METRICS);
        _stands(round, RIGHT);
    }

    // --- the round that runs ---

    function test_TheNextRound_MustStartFromTheModelThatStandsAgain() public {
        _closed(4, 4);
        bytes32 standing = ledger.currentModel();
        _void(_closed(4, 4));
        vm.roll(vm.getBlockNumber() + 4);
        _refusesOpen(members[0].account, _modelOf(2), _wrongModel(_modelOf(2), standing));
        _as(members[0].account);
        _equal(ledger.open(standing, _nobody()), 3, "round");
        _equal(ledger.round(3).modelDigest, standing, "the model trained from");
    }

    function test_AfterAVoiding_TheRoundBeforeCannotBeJudged_TheNextClosedOneCan() public {
        uint64 first = _closed(4, 4);
        uint64 second = _closed(4, 4);
        _void(second);
        _refuses(0, first, Phase.Closed, 0, 0, _notJudgeable(first, 0));
        _refuses(3, second, Phase.Closed, 0, 0, _notJudgeable(second, 0));
        uint64 third = _playBy(2, 7, 3); // 2 opens and closes, 0 and 1 commit
        _refusesAccount(members[3].account, third); // what it committed is void
        _judge(0, third, 0, 0);
        _judge(1, third, 0, 0);
        _inPhase(third, Phase.Voided);
        _equal(ledger.currentModel(), _modelOf(first), "model");
    }

    /// @dev `blocks` takes the round through all phases that need no more than time.
    function test_TheRoundThatRunsOnAModelThatFell_IsVoid() public {
        uint64 closed = _closed(4, 4);
        uint64 running = _openAndDraw(3);
        for (uint256 blocks = 0; blocks < 20; ++blocks) { // draw, seal, overdue
            for (uint256 replaces = 0; replaces < 2; ++replaces) {
                uint256 before = vm.snapshotState();
                vm.roll(vm.getBlockNumber() + blocks);
                _bothFall(closed, running, replaces == 1);
                vm.revertToState(before);
            }
        }
    }

    function _bothFall(uint64 closed, uint64 running, bool replaces) private {
        _overrule(closed, running, replaces ? RIGHT : bytes32(0));
        bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.RoundEnded.selector, running, Phase.Voided);
        vm.expectRevert(refusal);
        _as(STRANGER);
        ledger.skip(running);
        vm.expectRevert(refusal);
        _as(STRANGER);
        ledger.fail(running);
        vm.expectRevert(_wrongPhase(running, Phase.Voided, Phase.Draw));
        _as(STRANGER);
        ledger.fixSeed(running);
        vm.expectRevert(_wrongPhase(running, Phase.Voided, Phase.Seal));
        _as(STRANGER);
        ledger.seal(running, "", "", "");
        _equal(_openByMember(0, replaces ? RIGHT : MODEL), running + 1, "next round");
    }

    function test_AVoidRound_TakesNoMoreRecords() public {
        uint64 closed = _closed(4, 4);
        uint64 running = _released(3, 3);
        _overrule(closed, running, 0);
        vm.expectRevert(_wrongPhase(running, Phase.Voided, Phase.Share));
        _share(0, running);
        vm.expectRevert(_wrongPhase(running, Phase.Voided, Phase.Commit));
        _commit(0, running);
        vm.expectRevert(_wrongPhase(running, Phase.Voided, Phase.Recover));
        _release(2, running);
        vm.expectRevert(_wrongPhase(running, Phase.Voided, Phase.Recover));
        _close(members[0].account, running);
        vm.expectRevert(_wrongPhase(closed, Phase.Voided, Phase.Recover));
        _close(members[0].account, closed);
        _refuses(2, running, Phase.Recover, 0, 0, _wrongPhase(running, Phase.Voided, Phase.Recover));
        _refuses(2, running, Phase.Closed, 0, 0, _notJudgeable(running, 0));
    }

    function test_AReplacementWithTheSameModel_LeavesTheRunningRoundAlone() public {
        uint64 closed = _closed(4, 4);
        uint64 running = _openAndDraw(3);
        _replace(closed, _modelOf(closed), RIGHT_METRICS);
        _stands(closed, _modelOf(closed));
        _inPhase(running, Phase.Draw);
        require(ledger.isStruck(COORDINATOR), "not struck");
        // Who commits in it may then judge it, and not the one before.
        uint64 round = _bring(running, 7, 7);
        vm.roll(_closerFrom(round, members[0].account, 0, 3));
        _close(members[0].account, round);
        _judge(1, round, 0, 0);
        _refusesAccount(members[3].account, round);
    }

    function test_RoundsThatEndedSinceTheClosing_StayAsTheyAre() public {
        uint64 closed = _closed(4, 4);
        uint64 skipped = _open();
        _skip(skipped);
        uint64 failed = _play(15, 15, false);
        _void(closed);
        _inPhase(skipped, Phase.Skipped);
        _inPhase(failed, Phase.Failed);
        _equal(ledger.currentModel(), MODEL, "model");
        _equal(ledger.currentRound(), failed, "current round");
        _equal(_openByMember(0, MODEL), failed + 1, "next round");
    }

    function test_VoidRounds_UseNoRepeat() public {
        uint64 closed = _closed(4, 4);
        uint64 running = _released(3, 3);
        uint32 failed = ledger.failedRounds();
        _overrule(closed, running, 0);
        _equal(ledger.failedRounds(), failed, "failed rounds");
        _equal(ledger.closedRounds(), 0, "closed rounds");
    }

    function test_TheGrace_CountsFromTheVoiding() public {
        _redeployWithGrace();
        _closed(4, 4);
        uint64 round = _closed(4, 4);
        vm.roll(vm.getBlockNumber() + 50);
        _void(round);
        uint256 until = vm.getBlockNumber() + 2;
        vm.roll(until);
        _refusesOpen(members[0].account, _modelOf(1), _onlyCoordinator(members[0].account, until));
        vm.roll(until + 1);
        _as(members[0].account);
        _equal(ledger.open(_modelOf(1), _nobody()), 3, "round");
    }

    function test_TheNextSeed_StillFollowsFromTheLatestOrder() public {
        uint64 closed = _closed(4, 4);
        uint64 running = _sealed(3);
        _overrule(closed, running, 0);
        uint64 next = _openByMember(0, MODEL);
        _toDraw(next);
        _as(STRANGER);
        ledger.fixSeed(next);
        bytes32 blockHash = keccak256(abi.encode("block", next));
        bytes32 seed = keccak256(abi.encode(blockHash, ledger.round(running).orderRoot));
        _equal(ledger.round(next).seed, seed, "seed");
    }

    // --- whose closing fell ---

    function test_AStruckCoordinator_NeitherOpensSkipsNorCloses() public {
        _void(_closed(4, 4));
        bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.IsStruck.selector, COORDINATOR);
        for (uint256 i = 0; i < 2; ++i) {
            _refusesOpen(COORDINATOR, MODEL, refusal);
            vm.roll(vm.getBlockNumber() + 1_000);
        }
        uint64 round = _openByMember(0, MODEL);
        _toDraw(round);
        _draw(0, round);
        vm.roll(_windowEnd(round) + 1_000);
        vm.expectRevert(refusal);
        _as(COORDINATOR);
        ledger.skip(round);
        _draw(1, round); // late
        round = _bring(round, 3, 3);
        vm.expectRevert(refusal);
        _close(COORDINATOR, round);
        vm.roll(ledger.round(round).recoverEnd);
        vm.expectRevert(refusal);
        _close(COORDINATOR, round);
        _close(members[0].account, round);
    }

    function test_AStruckMember_NeitherOpensSkipsNorCloses_ButDrawsAndJudges() public {
        uint64 round = _released(4, 4);
        vm.roll(ledger.round(round).recoverEnd);
        _close(members[3].account, round);
        _void(round);
        require(ledger.isStruck(members[3].account) && !ledger.isStruck(COORDINATOR), "another is struck");
        bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.IsStruck.selector, members[3].account);
        vm.roll(vm.getBlockNumber() + 100);
        _refusesOpen(members[3].account, MODEL, refusal);
        uint64 waiting = _openAndDraw(1);
        vm.roll(_windowEnd(waiting) + (1 << 16));
        vm.expectRevert(refusal);
        _as(members[3].account);
        ledger.skip(waiting);
        _skip(waiting);
        round = _released(4, 4);
        vm.roll(ledger.round(round).recoverEnd);
        vm.expectRevert(refusal);
        _close(members[3].account, round);
        _close(COORDINATOR, round);
        _judge(3, round, RIGHT, METRICS);
    }

    /// @dev As the closer's share in a majority is one vote, and its result stands until that.
    function test_AStruckAccount_StaysStruck_WhateverStandsLater() public {
        _void(_closed(4, 4));
        uint64 round = _playBy(0, 15, 15);
        _stands(round, _modelOf(round));
        require(ledger.isStruck(COORDINATOR), "struck no more");
        _replace(round, RIGHT, METRICS);
        require(ledger.isStruck(members[0].account) && !ledger.isStruck(members[1].account), "another is struck");
    }

    function test_TheGraceOfAStruckCoordinator_IsAQuarter() public {
        _redeployWithGrace();
        _void(_closed(4, 4));
        uint256 until = vm.getBlockNumber() + 2;
        vm.roll(until);
        _refusesOpen(members[0].account, MODEL, _onlyCoordinator(members[0].account, until));
        vm.roll(until + 1);
        _as(members[0].account);
        uint64 round = ledger.open(MODEL, _nobody());
        delete tickets;
        _drawAll(round, 15);
        round = _bring(round, 15, 15);
        uint256 from = _closerFrom(round, members[1].account, 2, 8);
        vm.roll(from - 1);
        vm.expectRevert(_onlyCoordinator(members[1].account, from - 1));
        _close(members[1].account, round);
        vm.roll(from);
        _close(members[1].account, round);
    }

    function test_AStruckMember_ShortensNobodysGrace() public {
        uint64 round = _released(4, 4);
        vm.roll(ledger.round(round).recoverEnd);
        _close(members[3].account, round);
        _void(round);
        uint256 until = vm.getBlockNumber() + 3;
        vm.roll(until);
        _refusesOpen(members[0].account, MODEL, _onlyCoordinator(members[0].account, until));
    }

    // --- rounds ---

    /// @dev A round that member `i` opens and closes in the place of the coordinator.
    function _playBy(uint256 i, uint256 draws, uint256 commits) private returns (uint64 round) {
        round = _openByMember(i, ledger.currentModel());
        _drawAll(round, draws);
        _bring(round, commits, draws);
        vm.roll(ledger.round(round).recoverEnd);
        address closer = (commits >> i) & 1 == 1 ? members[i].account : members[0].account;
        _close(closer, round);
    }

    function _openByMember(uint256 i, bytes32 model) private returns (uint64) {
        vm.roll(vm.getBlockNumber() + 4);
        delete tickets;
        _as(members[i].account);
        return ledger.open(model, _nobody());
    }

    function _redeployFor(uint16 quorum, uint16 judges) private {
        Settings memory s = _settings();
        (s.quorum, s.judges) = (quorum, judges);
        _redeploy(Membership.Open, s, _terms());
        _join(4);
    }

    /// @dev A grace that has quarters.
    function _redeployWithGrace() private {
        Settings memory s = _settings();
        (s.coordinatorGrace, s.recoverWindow) = (8, 32);
        _redeploy(Membership.Open, s, _terms());
        _join(4);
    }

    function _refusesOpen(address account, bytes32 model, bytes memory refusal) private {
        vm.expectRevert(refusal);
        _as(account);
        ledger.open(model, _nobody());
    }

    function _wrongModel(bytes32 model, bytes32 standing) private pure returns (bytes memory) {
        return abi.encodeWithSelector(ITrainingLedger.WrongModel.selector, model, standing);
    }

    function _onlyCoordinator(address account, uint256 until) private pure returns (bytes memory) {
        return abi.encodeWithSelector(ITrainingLedger.OnlyCoordinator.selector, account, until);
    }

    // --- judgements ---

    /// @dev By members 0, 1 and 2, who committed.
    function _void(uint64 round) private {
        _replaceOrVoid(round, 0, 0);
        _inPhase(round, Phase.Voided);
    }

    function _replace(uint64 round, bytes32 model, bytes32 metrics) private {
        _replaceOrVoid(round, model, metrics);
        _stands(round, model);
    }

    function _replaceOrVoid(uint64 round, bytes32 model, bytes32 metrics) private {
        _judge(0, round, model, metrics);
        _judge(1, round, model, metrics);
        if (ledger.phase(round) == Phase.Closed) _judge(2, round, model, metrics);
    }

    /// @dev A majority for a result of `closed` that ends the round that runs on its model as well; 0: for nothing.
    function _overrule(uint64 closed, uint64 running, bytes32 model) private {
        (bytes32 metrics, bytes32 standing) = model == 0 ? (bytes32(0), MODEL) : (METRICS, model);
        _judge(0, closed, model, metrics);
        _judge(1, closed, model, metrics);
        vm.expectEmit(address(ledger));
        if (model == 0) emit ITrainingLedger.Voided(closed, MODEL);
        else emit ITrainingLedger.Replaced(closed, model, metrics);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Voided(running, standing);
        _judge(2, closed, model, metrics);
        _inPhase(closed, model == 0 ? Phase.Voided : Phase.Closed);
        _inPhase(running, Phase.Voided);
        _equal(ledger.currentModel(), standing, "model");
        _equal(ledger.lastClosed(), model == 0 ? 0 : closed, "last closed");
    }
}
