// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Membership} from "../../contracts/interfaces/IClientRegistry.sol";
import {ITrainingLedger, Phase, Settings} from "../../contracts/interfaces/ITrainingLedger.sol";
import {Federation} from "./harness/Federation.sol";
import {vm} from "./harness/Vm.sol";

/// @notice What the clients that committed say of a round, before its closing and after, and what a majority brings
/// about.
contract JudgementsTest is Federation {
    bytes32 private constant RIGHT = keccak256("the right model");
    bytes32 private constant RIGHT_METRICS = keccak256("the right metrics");

    /// @dev Of the latest closed round, by bits: who committed, and who has judged it; see the last test.
    uint256 private _standing;
    uint256 private _judged;

    function setUp() public {
        _deploy(Membership.Open);
        _join(4);
    }

    // --- that nothing may be summed: who may say so, and when ---

    function test_BeforeTheClosing_AClientThatCommitted_MayJudgeOnce() public {
        uint64 round = _committed(4, 4);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Judged(round, 2, Phase.Recover, 0, 0);
        _judgeNothing(1, round);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.AlreadyJudged.selector, round, 2));
        _judgeNothing(1, round);
        _inPhase(round, Phase.Recover);
    }

    function test_BeforeTheClosing_NobodyElseMayJudge() public {
        uint64 first = _closed(4, 4); // so all have committed once
        uint64 round = _committed(3, 2);
        require(round == first + 1, "the next round");
        address[4] memory others = [members[2].account, members[3].account, COORDINATOR, STRANGER];
        for (uint256 i = 0; i < 4; ++i) {
            vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.NotCommitted.selector, round, others[i]));
            _as(others[i]);
            ledger.judge(round, Phase.Recover, 0, 0);
        }
    }

    function test_BeforeTheClosing_OnlyNothingIsAJudgement() public {
        uint64 round = _committed(3, 3);
        bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.OnlyNothing.selector, round);
        _refuses(0, round, Phase.Recover, RIGHT, METRICS, refusal);
        _refusesHalves(round, Phase.Recover);
    }

    function test_ThatNothingMayBeSummed_IsSaidInTheRecoverPhaseOnly() public {
        uint64 round = _sealed(3);
        _share(0, round);
        _share(1, round);
        _share(2, round);
        _refuses(0, round, Phase.Recover, 0, 0, _wrongPhase(round, Phase.Share, Phase.Recover));
        vm.roll(ledger.round(round).shareEnd + 1);
        _commit(0, round);
        _commit(1, round);
        vm.roll(ledger.round(round).commitEnd);
        _refuses(0, round, Phase.Recover, 0, 0, _wrongPhase(round, Phase.Commit, Phase.Recover));
        vm.roll(ledger.round(round).recoverEnd);
        _judgeNothing(0, round);
        vm.roll(ledger.round(round).recoverEnd + 1);
        _refuses(1, round, Phase.Recover, 0, 0, _wrongPhase(round, Phase.Overdue, Phase.Recover));
        _fail(round);
        _refuses(1, round, Phase.Recover, 0, 0, _wrongPhase(round, Phase.Failed, Phase.Recover));
        _refuses(1, 9, Phase.Recover, 0, 0, _wrongPhase(9, Phase.None, Phase.Recover));
        _refuses(1, 0, Phase.Recover, 0, 0, _wrongPhase(0, Phase.None, Phase.Recover));
    }

    /// @dev What so many released can be summed, whoever says otherwise.
    function test_OnceTheReleasesAreListed_NobodyStopsTheRound() public {
        uint64 round = _committed(3, 3);
        _judgeNothing(0, round);
        _release(0, round);
        uint256 before = vm.snapshotState();
        _judgeNothing(1, round);
        _inPhase(round, Phase.Failed);
        vm.revertToState(before);
        _release(1, round);
        bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.ReleasesListed.selector, round, 2);
        _refuses(1, round, Phase.Recover, 0, 0, refusal);
        _close(COORDINATOR, round);
        _refuses(1, round, Phase.Recover, 0, 0, _wrongPhase(round, Phase.Closed, Phase.Recover));
    }

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
        uint256 count = 0;
        for (uint256 i = 0; i < survivors; ++i) {
            if ((who >> i) & 1 == 0) continue;
            if (count >= judges && 2 * count > survivors) break;
            _judgeNothing(i, round);
            count += 1;
        }
        bool fails = count >= judges && 2 * count > survivors;
        _inPhase(round, fails ? Phase.Failed : Phase.Recover);
        _equal(ledger.failedRounds(), fails ? 1 : 0, "failed rounds");
        _equal(ledger.currentModel(), MODEL, "model");
        require(!ledger.isStruck(COORDINATOR), "nobody has closed");
    }

    // --- what the closing should have been: who may say so, and when ---

    function test_BeforeARoundClosed_NothingCanBeJudged() public {
        _refuses(0, 0, Phase.Closed, 0, 0, _notJudgeable(0, 0));
        uint64 round = _committed(3, 3);
        _refuses(0, 0, Phase.Closed, 0, 0, _notJudgeable(0, 0));
        _refuses(0, round, Phase.Closed, 0, 0, _notJudgeable(round, 0));
        _fail(round);
        _refuses(0, round, Phase.Closed, 0, 0, _notJudgeable(round, 0));
        _equal(ledger.lastClosed(), 0, "last closed");
    }

    function test_AJudgement_AnswersOneOfTwoQuestions() public {
        uint64 round = _closed(3, 3);
        for (uint256 phase = 0; phase <= uint256(Phase.Voided); ++phase) {
            Phase asked = Phase(phase);
            if (asked == Phase.Recover || asked == Phase.Closed) continue;
            _refuses(0, round, asked, 0, 0, _notJudgeable(round, round));
            _refuses(0, round, asked, RIGHT, METRICS, _notJudgeable(round, round));
        }
        _as(members[0].account);
        (bool done,) = address(ledger).call(
            abi.encodeWithSelector(ledger.judge.selector, round, uint256(Phase.Voided) + 1, bytes32(0), bytes32(0))
        );
        require(!done, "a question that does not exist");
        _refusesHalves(round, Phase.Closed);
    }

    function test_AfterTheClosing_AClientThatCommitted_MayJudgeOnce() public {
        uint64 round = _closed(4, 4);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Judged(round, 2, Phase.Closed, RIGHT, METRICS);
        _judge(1, round, RIGHT, METRICS);
        bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.AlreadyJudged.selector, round, 2);
        _refuses(1, round, Phase.Closed, RIGHT, METRICS, refusal);
        _refuses(1, round, Phase.Closed, 0, 0, refusal);
        _openAndDraw(4); // and so in the next round, with another state
        _refuses(1, round, Phase.Closed, RIGHT, METRICS, refusal);
        _inPhase(round, Phase.Closed);
    }

    /// @dev Its first judgement then counts no more.
    function test_AJudgement_MayBeTakenBack_ForAResultThatOthersSay_AndForNothingElse() public {
        uint64 round = _closed(4, 4);
        _judge(0, round, 0, 0);
        _judge(1, round, 0, 0);
        bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.AlreadyJudged.selector, round, 2);
        _refuses(1, round, Phase.Closed, RIGHT, RIGHT_METRICS, refusal); // nobody says so
        _judge(3, round, RIGHT, RIGHT_METRICS);
        _judge(1, round, RIGHT, RIGHT_METRICS);
        _refuses(1, round, Phase.Closed, 0, 0, refusal); // though another says so
        _refuses(1, round, Phase.Closed, RIGHT, RIGHT_METRICS, refusal);
        _refuses(1, round, Phase.Closed, RIGHT, METRICS, refusal);
        _judge(2, round, 0, 0);
        _stands(round, _modelOf(round)); // two for nothing, not three
        _judge(2, round, RIGHT, RIGHT_METRICS);
        _stands(round, RIGHT);
        _judge(0, round, RIGHT, RIGHT_METRICS); // also when it stands
        _stands(round, RIGHT);
    }

    /// @dev Two and two are not most; one of them that sees what the others see makes them so.
    function test_WhoSawLessOfAResult_MayTakeThatBackForMore() public {
        uint64 round = _closed(4, 4);
        _judge(0, round, MODEL, RIGHT_METRICS);
        _judge(1, round, MODEL, RIGHT_METRICS);
        _judge(2, round, RIGHT, RIGHT_METRICS);
        _judge(3, round, RIGHT, RIGHT_METRICS);
        _stands(round, _modelOf(round));
        _judge(1, round, RIGHT, RIGHT_METRICS);
        _stands(round, RIGHT);
        _judge(3, round, MODEL, RIGHT_METRICS);
        _judge(2, round, MODEL, RIGHT_METRICS);
        _stands(round, MODEL); // most say so now
        bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.AlreadyJudged.selector, round, 4);
        _judge(1, round, MODEL, RIGHT_METRICS);
        _refuses(3, round, Phase.Closed, RIGHT, RIGHT_METRICS, refusal); // nobody says so any more
    }

    function test_NobodyWhoDidNotCommit_MayJudge() public {
        uint64 round = _closed(3, 2);
        _refusesAccount(members[2].account, round); // drew
        _refusesAccount(members[3].account, round); // did not
        _refusesAccount(COORDINATOR, round);
        _refusesAccount(STRANGER, round);
    }

    function test_OnlyTheLatestClosedRound_CanBeJudged() public {
        uint64 first = _closed(4, 4);
        _judge(0, first, 0, 0);
        _judge(1, first, 0, 0);
        uint64 second = _closed(4, 4);
        _refuses(2, first, Phase.Closed, 0, 0, _notJudgeable(first, second));
        _refuses(2, second + 1, Phase.Closed, 0, 0, _notJudgeable(second + 1, second));
        _inPhase(first, Phase.Closed);
        _judge(2, second, 0, 0); // those of the first round do not count
        _judge(0, second, 0, 0);
        _inPhase(second, Phase.Closed);
    }

    function test_AClientThatDrewInTheNextRound_MayJudgeTheOneBefore() public {
        uint64 round = _closed(3, 2);
        uint64 running = _openAndDraw(4);
        _refusesAccount(members[2].account, round);
        _judge(0, round, 0, 0);
        _judge(1, round, 0, 0);
        _inPhase(round, Phase.Voided);
        _inPhase(running, Phase.Voided);
    }

    function test_AfterRoundsWithoutAModel_ThoseWhoCommittedMayJudge_WheneverTheyDrew() public {
        uint64 round = _closed(3, 2); // by members 0 and 1
        _play(13, 13, false); // 1 draws no more, 2 and 3 commit
        _play(0, 0, false);
        uint64 running = _play(15, 0, true); // 1 draws after rounds without it
        _refusesAccount(members[2].account, round);
        _refusesAccount(members[3].account, round);
        _judge(0, round, 0, 0);
        _judge(1, round, 0, 0);
        _inPhase(round, Phase.Voided);
        _inPhase(running, Phase.Voided);
    }

    function test_HavingCommittedInAnEarlierClosedRound_IsNotEnough() public {
        _closed(4, 4);
        uint64 round = _closed(3, 2);
        _refusesAccount(members[2].account, round);
        _refusesAccount(members[3].account, round);
        _play(0, 0, false);
        _play(15, 0, true);
        _refusesAccount(members[3].account, round);
        _judge(0, round, 0, 0);
    }

    // --- two questions ---

    function test_TheTwoQuestions_AreCountedApart() public {
        uint64 round = _committed(4, 4);
        _judgeNothing(0, round);
        _judgeNothing(1, round);
        _release(2, round);
        _release(3, round);
        _close(COORDINATOR, round);
        _judge(0, round, 0, 0); // with those before the closing, three of four
        _inPhase(round, Phase.Closed);
        _judge(1, round, 0, 0);
        _inPhase(round, Phase.Closed);
        bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.AlreadyJudged.selector, round, 1);
        _refuses(0, round, Phase.Closed, 0, 0, refusal);
        _judge(2, round, 0, 0);
        _inPhase(round, Phase.Voided);
    }

    function test_WhoSaidThatNothingMayBeSummed_MayConfirmTheClosing() public {
        uint64 round = _committed(3, 3);
        _judgeNothing(0, round);
        _release(0, round);
        _release(1, round);
        _close(COORDINATOR, round);
        _judge(0, round, _modelOf(round), METRICS);
        _inPhase(round, Phase.Closed);
    }

    // --- what a majority brings about ---

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
        _refusesOpen(members[0].account, _modelOf(round), RIGHT);
        vm.roll(vm.getBlockNumber() + 4);
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
            bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.AlreadyJudged.selector, round, i + 1);
            _refuses(i, round, Phase.Closed, _modelOf(round), METRICS, refusal);
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
        _refusesOpen(members[0].account, _modelOf(2), standing);
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
        if (replaces) _replaceAndVoid(closed, running);
        else _voidBoth(closed, running);
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
        _voidBoth(closed, running);
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
        _voidBoth(closed, running);
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
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.OnlyCoordinator.selector, members[0].account, until));
        _as(members[0].account);
        ledger.open(_modelOf(1), _nobody());
        vm.roll(until + 1);
        _as(members[0].account);
        _equal(ledger.open(_modelOf(1), _nobody()), 3, "round");
    }

    function test_TheNextSeed_StillFollowsFromTheLatestOrder() public {
        uint64 closed = _closed(4, 4);
        uint64 running = _sealed(3);
        _voidBoth(closed, running);
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
            vm.expectRevert(refusal);
            _as(COORDINATOR);
            ledger.open(MODEL, _nobody());
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
        vm.expectRevert(refusal);
        _as(members[3].account);
        ledger.open(MODEL, _nobody());
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
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.OnlyCoordinator.selector, members[0].account, until));
        _as(members[0].account);
        ledger.open(MODEL, _nobody());
        vm.roll(until + 1);
        _as(members[0].account);
        uint64 round = ledger.open(MODEL, _nobody());
        delete tickets;
        _toDraw(round);
        _draw(0, round);
        _draw(1, round);
        _draw(2, round);
        _draw(3, round);
        round = _bring(round, 15, 15);
        uint256 from = _closerFrom(round, members[1].account, 2, 8);
        vm.roll(from - 1);
        vm.expectRevert(
            abi.encodeWithSelector(ITrainingLedger.OnlyCoordinator.selector, members[1].account, from - 1)
        );
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
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.OnlyCoordinator.selector, members[0].account, until));
        _as(members[0].account);
        ledger.open(MODEL, _nobody());
    }

    // --- any history ---

    /// @dev Six rounds, of each of which `history` says who draws, who commits, whether it closes and whether the
    /// closing falls; after each, those and only those who committed in the latest closed one may judge it, once.
    /// forge-config: default.fuzz.runs = 48
    function testFuzz_WhoMayJudge_IsKnownThroughAnyHistory(uint256 history) public {
        uint64 standing = 0;
        for (uint256 i = 0; i < 6; ++i) {
            uint256 draws = history & 15;
            uint256 commits = draws & (history >> 4);
            bool closes = (history >> 8) & 1 == 1 && _bits(commits) >= 2 && 2 * _bits(commits) > _bits(draws);
            uint64 round = _playAs(_whoMayAct(15), draws, commits, closes);
            if (ledger.phase(round) == Phase.Closed) {
                standing = round;
                (_standing, _judged) = (commits, 0);
            }
            if (standing != 0) _onlyThoseWhoCommitted(standing);
            uint256 verdict = (history >> 9) & 7;
            if (standing != 0 && verdict < 3) {
                bytes32 model = verdict == 0 ? bytes32(0) : verdict == 1 ? RIGHT : ledger.currentModel();
                _decide(standing, model, verdict == 0 ? bytes32(0) : RIGHT_METRICS);
                if (ledger.lastClosed() == 0) standing = 0;
                else _onlyThoseWhoCommitted(standing);
            }
            history >>= 12;
        }
    }

    /// @dev Tries all judgements and takes them back.
    function _onlyThoseWhoCommitted(uint64 round) private {
        for (uint256 i = 0; i < 4; ++i) {
            uint256 before = vm.snapshotState();
            if ((_standing >> i) & 1 == 0) {
                _refusesAccount(members[i].account, round);
            } else if ((_judged >> i) & 1 == 1) {
                bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.AlreadyJudged.selector, round, i + 1);
                _refuses(i, round, Phase.Closed, 0, 0, refusal);
            } else {
                _judge(i, round, DIGEST, DIGEST);
            }
            vm.revertToState(before);
        }
    }

    /// @dev As many as may say the same, until the closing fell.
    function _decide(uint64 round, bytes32 model, bytes32 metrics) private {
        for (uint256 i = 0; i < 4 && ledger.phase(round) == Phase.Closed; ++i) {
            if (((_standing & ~_judged) >> i) & 1 == 0) continue;
            _judge(i, round, model, metrics);
            _judged |= 1 << i;
        }
    }

    /// @dev The coordinator, else the first member of these bits that is not struck; nobody if all are.
    function _whoMayAct(uint256 bits) private view returns (address) {
        if (!ledger.isStruck(COORDINATOR)) return COORDINATOR;
        for (uint256 i = 0; i < 4; ++i) {
            if ((bits >> i) & 1 == 1 && !ledger.isStruck(members[i].account)) return members[i].account;
        }
        return address(0);
    }

    /// @dev A round opened by `opener`, or the latest one where there is nobody who could.
    function _playAs(address opener, uint256 draws, uint256 commits, bool closes) private returns (uint64 round) {
        if (opener == address(0)) return ledger.currentRound();
        bytes32 model = ledger.currentModel();
        vm.roll(vm.getBlockNumber() + 4);
        delete tickets;
        _as(opener);
        round = ledger.open(model, _nobody());
        _toDraw(round);
        for (uint256 i = 0; i < 4; ++i) {
            if ((draws >> i) & 1 == 1) _draw(i, round);
        }
        if (_bits(draws) < 2) {
            vm.roll(_windowEnd(round) + (1 << 16));
            _as(opener);
            ledger.skip(round);
            return round;
        }
        _bring(round, commits, draws);
        address closer = _whoMayAct(commits);
        if (!closes || closer == address(0)) {
            _fail(round);
            return round;
        }
        vm.roll(ledger.round(round).recoverEnd);
        _close(closer, round);
    }

    // --- rounds ---

    /// @dev A round in which the members of the bits `draws` draw and, if they are a quorum, those of `commits` commit.
    /// It is left running, as far as it came, or it is skipped or fails.
    function _play(uint256 draws, uint256 commits, bool running) private returns (uint64 round) {
        round = _open();
        _toDraw(round);
        for (uint256 i = 0; i < 4; ++i) {
            if ((draws >> i) & 1 == 1) _draw(i, round);
        }
        if (_bits(draws) < 2) {
            if (!running) _skip(round);
            return round;
        }
        _bring(round, commits, 0);
        if (!running) _fail(round);
    }

    /// @dev Takes a round from the end of its draws to its recover phase: those of `commits` commit, two of `releases`
    /// release.
    function _bring(uint64 round, uint256 commits, uint256 releases) private returns (uint64) {
        _seal(round);
        for (uint256 i = 0; i < 4; ++i) {
            if ((commits >> i) & 1 == 1) _share(i, round);
        }
        vm.roll(ledger.round(round).shareEnd + 1);
        for (uint256 i = 0; i < 4; ++i) {
            if ((commits >> i) & 1 == 1) _commit(i, round);
        }
        vm.roll(ledger.round(round).commitEnd + 1);
        for (uint256 i = 0; i < 4; ++i) {
            if ((releases >> i) & 1 == 1 && ledger.round(round).released < 2) _release(i, round);
        }
        return round;
    }

    /// @dev A round that member `i` opens and closes in the place of the coordinator.
    function _playBy(uint256 i, uint256 draws, uint256 commits) private returns (uint64 round) {
        round = _openByMember(i, ledger.currentModel());
        _toDraw(round);
        for (uint256 k = 0; k < 4; ++k) {
            if ((draws >> k) & 1 == 1) _draw(k, round);
        }
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

    function _voidBoth(uint64 closed, uint64 running) private {
        _judge(0, closed, 0, 0);
        _judge(1, closed, 0, 0);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Voided(closed, MODEL);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Voided(running, MODEL);
        _judge(2, closed, 0, 0);
        _inPhase(closed, Phase.Voided);
        _inPhase(running, Phase.Voided);
        _equal(ledger.currentModel(), MODEL, "model");
    }

    function _replaceAndVoid(uint64 closed, uint64 running) private {
        _judge(0, closed, RIGHT, METRICS);
        _judge(1, closed, RIGHT, METRICS);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Replaced(closed, RIGHT, METRICS);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Voided(running, RIGHT);
        _judge(2, closed, RIGHT, METRICS);
        _stands(closed, RIGHT);
        _inPhase(running, Phase.Voided);
    }

    function _stands(uint64 round, bytes32 model) private view {
        _inPhase(round, Phase.Closed);
        _equal(ledger.currentModel(), model, "model");
        _equal(ledger.lastClosed(), round, "last closed");
    }

    function _refuses(
        uint256 i,
        uint64 round,
        Phase asked,
        bytes32 model,
        bytes32 metrics,
        bytes memory refusal
    ) private {
        vm.expectRevert(refusal);
        _as(members[i].account);
        ledger.judge(round, asked, model, metrics);
    }

    /// @dev A model without metrics, or metrics without a model.
    function _refusesHalves(uint64 round, Phase asked) private {
        bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.ZeroDigest.selector, round);
        _refuses(0, round, asked, RIGHT, 0, refusal);
        _refuses(0, round, asked, 0, METRICS, refusal);
    }

    function _refusesAccount(address account, uint64 round) private {
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.NotCommitted.selector, round, account));
        _as(account);
        ledger.judge(round, Phase.Closed, RIGHT, METRICS);
    }

    function _refusesOpen(address account, bytes32 model, bytes32 standing) private {
        uint256 before = vm.snapshotState();
        vm.roll(vm.getBlockNumber() + 100);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.WrongModel.selector, model, standing));
        _as(account);
        ledger.open(model, _nobody());
        vm.revertToState(before);
    }

    function _notJudgeable(uint64 round, uint64 standing) private pure returns (bytes memory) {
        return abi.encodeWithSelector(ITrainingLedger.NotJudgeable.selector, round, standing);
    }
}
