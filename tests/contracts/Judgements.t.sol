// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ITrainingLedger, Phase} from "../../contracts/interfaces/ITrainingLedger.sol";
import {JudgedFederation} from "./harness/JudgedFederation.sol";
import {vm} from "./harness/Vm.sol";

/// @notice Who may say what of a round, before its closing and after: the clients that committed.
contract JudgementsTest is JudgedFederation {
    /// @dev Of the latest closed round, by bits: who committed, and who has judged it; see the last test.
    uint256 private _standing;
    uint256 private _judged;

    // --- that nothing may be summed ---

    function test_BeforeTheClosing_AClientThatCommitted_MayJudgeOnce() public {
        uint64 round = _committed(4, 4);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Judged(round, 2, Phase.Recover, 0, 0);
        _judgeNothing(1, round);
        _refuses(1, round, Phase.Recover, 0, 0, _alreadyJudged(round, 2));
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

    // --- what the closing should have been ---

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
        bytes memory refusal = _alreadyJudged(round, 2);
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
        bytes memory refusal = _alreadyJudged(round, 2);
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
        bytes memory refusal = _alreadyJudged(round, 4);
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
        _refuses(0, round, Phase.Closed, 0, 0, _alreadyJudged(round, 1));
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
                _refuses(i, round, Phase.Closed, 0, 0, _alreadyJudged(round, i + 1));
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
        _drawAll(round, draws);
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

    /// @dev A model without metrics, or metrics without a model.
    function _refusesHalves(uint64 round, Phase asked) private {
        bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.ZeroDigest.selector, round);
        _refuses(0, round, asked, RIGHT, 0, refusal);
        _refuses(0, round, asked, 0, METRICS, refusal);
    }
}
