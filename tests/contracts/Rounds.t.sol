// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IClientRegistry, Membership} from "../../contracts/interfaces/IClientRegistry.sol";
import {
    ITrainingLedger, Phase, Rate, RoundView, Settings, Terms
} from "../../contracts/interfaces/ITrainingLedger.sol";
import {Federation, Member} from "./harness/Federation.sol";
import {vm} from "./harness/Vm.sol";

/// @notice Deployment, opening, and who may act for the coordinator.
contract RoundsTest is Federation {
    function setUp() public {
        _deploy(Membership.Open);
        _join(3);
    }

    // --- deployment ---

    function test_Deployment_RefusesARegistryOfAnotherLedger() public {
        vm.expectRevert(
            abi.encodeWithSelector(ITrainingLedger.WrongRegistry.selector, address(registry), address(ledger))
        );
        _deployLedger(registry, _settings(), _terms());
    }

    function test_Deployment_RefusesNobodyAsCoordinator() public {
        _mockRegistry();
        vm.expectRevert(ITrainingLedger.ZeroCoordinator.selector);
        _create("TrainingLedger.sol:TrainingLedger", abi.encode(registry, address(0), _settings(), _terms()));
    }

    function test_Deployment_RefusesSettingsThatCannotWork() public {
        Settings memory s = _settings();
        s.seedDelay = 0;
        _refusedSettings(s, "seedDelay", 0);
        s = _settings();
        s.orderDelay = 0;
        _refusedSettings(s, "orderDelay", 0);
        s = _settings();
        s.recoverWindow = 0;
        _refusedSettings(s, "recoverWindow", 0);
        s = _settings();
        s.vouchWindow = 1;
        _refusedSettings(s, "affirmWindow", 0);
        (s.affirmWindow, s.stages) = (1, 33);
        _refusedSettings(s, "stages", 33);
        (s.vouchWindow, s.stages) = (0, 0);
        _refusedSettings(s, "affirmWindow", 1);
        (s.affirmWindow, s.stages) = (0, 1);
        _refusedSettings(s, "stages", 1);
        s = _settings();
        s.quorum = 0;
        _refusedSettings(s, "quorum", 0);
        s = _settings();
        s.quorum = 5;
        _refusedSettings(s, "maxClients", 4);
        s = _settings();
        s.absenceLimit = 0;
        _refusedSettings(s, "absenceLimit", 0);
        s = _settings();
        s.maxSamples = 0;
        _refusedSettings(s, "maxSamples", 0);
        s = _settings();
        s.rounds = 0;
        _refusedSettings(s, "rounds", 0);
    }

    /// @dev Twice the grace is what it takes at most until others than the coordinator may close.
    function test_Deployment_RefusesARecoverWindowBelowFourGraces() public {
        Settings memory s = _settings();
        s.recoverWindow = 11;
        _refusedSettings(s, "recoverWindow", 11);
        (s.coordinatorGrace, s.recoverWindow) = (65_535, 65_535);
        _refusedSettings(s, "recoverWindow", 65_535);
        (s.coordinatorGrace, s.recoverWindow) = (16_383, 65_532);
        _redeploy(Membership.Open, s, _terms());
        (s.coordinatorGrace, s.recoverWindow) = (0, 0);
        _refusedSettings(s, "recoverWindow", 0);
    }

    /// @dev More could be missing in a round that goes well, which then never closed, or closed and could not be judged.
    function test_Deployment_RefusesMoreReleasesOrJudgesThanTheQuorum() public {
        Settings memory s = _settings();
        s.releases = 0;
        _refusedSettings(s, "releases", 0);
        s.releases = 3;
        _refusedSettings(s, "releases", 3);
        s = _settings();
        s.judges = 0;
        _refusedSettings(s, "judges", 0);
        s.judges = 3;
        _refusedSettings(s, "judges", 3);
    }

    function test_Deployment_RefusesTermsWithoutADigest() public {
        bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.ZeroDigest.selector, 0);
        Terms memory t = _terms();
        t.config = 0;
        _refusedTerms(t, refusal);
        t = _terms();
        t.model = 0;
        _refusedTerms(t, refusal);
    }

    function test_Deployment_RefusesRatesThatDoNotAscendFromTheFirstRound() public {
        Terms memory t = _terms();
        t.rates = new Rate[](0);
        _refusedRates(t, 0);
        _refusedRates(_ratesFrom(0, 5, 6), 0);
        _refusedRates(_ratesFrom(2, 5, 6), 0);
        _refusedRates(_ratesFrom(1, 1, 6), 1);
        _refusedRates(_ratesFrom(1, 0, 6), 1);
        _refusedRates(_ratesFrom(1, 5, 5), 2);
        _refusedRates(_ratesFrom(1, 5, 4), 2);
    }

    function test_Deployment_RefusesRatesThatAreNone() public {
        Terms memory t = _ratesFrom(1, 5, 6);
        t.rates[1].perMillion = 0;
        _refusedRates(t, 1);
        t.rates[1].perMillion = EVERYONE + 1;
        _refusedRates(t, 1);
        t = _termsAt(0);
        _refusedRates(t, 0);
    }

    function test_TheParties_AreThoseOfTheDeployment() public view {
        require(ledger.coordinator() == COORDINATOR && address(ledger.registry()) == address(registry), "parties");
    }

    /// @dev Settings of which no two are equal.
    function test_EachSetting_IsInItsPlace() public {
        Settings memory s = Settings(1, 2, 3, 10, 8, 9, 15, 16, 29, 7, 5, 3, 17, 4, 6, 11, 12, false, 13, 14);
        _redeploy(Membership.Open, s, _termsAt(EVERYONE - 1));
        _join(7);
        uint64 round = _open();
        RoundView memory view_ = ledger.round(round);
        uint256 b = vm.getBlockNumber();
        _equal(view_.seedBlock, b + 1, "seedBlock");
        _equal(view_.drawEnd, b + 3, "drawEnd");
        _equal(view_.orderBlock, b + 6, "orderBlock");
        _equal(view_.sealEnd, b + 16, "sealEnd");
        _equal(view_.shareEnd, b + 24, "shareEnd");
        _equal(view_.commitEnd, b + 33, "commitEnd");
        _equal(view_.sketchBlock, b + 36, "sketchBlock");
        _equal(view_.vouchEnd, b + 51, "vouchEnd");
        _equal(view_.affirmEnd, b + 67, "affirmEnd");
        _equal(view_.recoverEnd, b + 96, "recoverEnd");
        _toDraw(round);
        Member memory last = members[6];
        (bytes memory message,) = _proof(last, round);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.SamplesOutOfRange.selector, 13, 12));
        ledger.checkDraw(round, last.account, last.vrfX, last.vrfY, 13, message);
        for (uint256 i = 0; i < 6; ++i) {
            _draw(i, round);
        }
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.RoundFull.selector, round, 6));
        ledger.checkDraw(round, last.account, last.vrfX, last.vrfY, 12, message);
        vm.roll(view_.drawEnd + 1);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.QuorumReached.selector, round, 6, 5));
        _as(COORDINATOR);
        ledger.skip(round);
        _seal(round);
        for (uint256 i = 0; i < 6; ++i) {
            _share(i, round);
        }
        vm.roll(ledger.round(round).shareEnd + 1);
        for (uint256 i = 0; i < 5; ++i) {
            _commit(i, round);
        }
        vm.roll(ledger.round(round).sketchBlock + 1);
        vm.setBlockhash(ledger.round(round).sketchBlock, _sketchHashOf(round));
        for (uint256 i = 0; i < 5; ++i) {
            _as(members[i].account);
            ledger.vouch(round, _sketchHashOf(round), DIGEST);
        }
        vm.roll(ledger.round(round).affirmEnd + 1);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.ReleasesMissing.selector, round, 0, 3));
        _close(COORDINATOR, round);
        for (uint256 i = 0; i < 3; ++i) {
            _as(members[i].account);
            ledger.release(round, _sketchHashOf(round), DIGEST, 0);
        }
        _close(COORDINATOR, round);
        for (uint256 i = 0; i < 4; ++i) {
            _equal(ledger.currentModel(), _modelOf(round), "model");
            _judge(i, round, DIGEST, METRICS);
        }
        _equal(ledger.currentModel(), DIGEST, "model");
        uint256 until = vm.getBlockNumber() + 1;
        vm.expectRevert(); // a quarter of the grace, which is one block
        _as(members[0].account);
        ledger.open(DIGEST, _nobody());
        vm.roll(until + 1);
        _as(members[0].account);
        ledger.open(DIGEST, _nobody());
    }

    // --- open ---

    function test_TheFirstRound_StartsFromTheModelOfTheTerms() public {
        _redeploy(Membership.Open, _settings(), _termsAt(500_000));
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.WrongModel.selector, DIGEST, MODEL));
        _as(COORDINATOR);
        ledger.open(DIGEST, _nobody());
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.RoundOpened(1, MODEL, CONFIG, 500_000, uint64(block.number), uint64(block.number + 2), _nobody());
        _as(COORDINATOR);
        _equal(ledger.open(MODEL, _nobody()), 1, "round");
        _equal(ledger.currentModel(), MODEL, "model");
        _equal(ledger.currentRound(), 1, "current round");
        RoundView memory view_ = ledger.round(1);
        uint256 b = block.number;
        _equal(view_.openedAt, b, "openedAt");
        _equal(view_.seedBlock, b + 2, "seedBlock");
        _equal(view_.drawEnd, b + 12, "drawEnd");
        _equal(view_.orderBlock, b + 14, "orderBlock");
        _equal(view_.sealEnd, b + 19, "sealEnd");
        _equal(view_.shareEnd, b + 25, "shareEnd");
        _equal(view_.commitEnd, b + 32, "commitEnd");
        _equal(view_.recoverEnd, b + 44, "recoverEnd");
        _equal(view_.samplingRate, 500_000, "rate");
        _equal(view_.modelDigest, MODEL, "the round's model");
    }

    function test_ARoundThatDoesNotExist_IsAllZero() public view {
        RoundView memory empty;
        _equal(keccak256(abi.encode(ledger.round(7))), keccak256(abi.encode(empty)), "view");
        _inPhase(7, Phase.None);
    }

    function test_ASecondRound_Cannot_OpenWhileOneRuns() public {
        uint64 round = _open();
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.RoundRunning.selector, round, Phase.Seeding));
        _as(COORDINATOR);
        ledger.open(MODEL, _nobody());
    }

    function test_ARound_OpensOnlyOnTheCurrentModel() public {
        _closed(3, 3);
        bytes32 current = keccak256(abi.encode("model", uint64(1)));
        _equal(ledger.currentModel(), current, "model");
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.WrongModel.selector, MODEL, current));
        _as(COORDINATOR);
        ledger.open(MODEL, _nobody());
    }

    // --- rates ---

    function test_ARound_HasTheRateOfItsPhase() public {
        _redeploy(Membership.Open, _settings(), _ratesFrom(1, 3, 4));
        uint32[5] memory expected = [_rate(0), _rate(0), _rate(1), _rate(2), _rate(2)];
        for (uint64 round = 1; round <= 5; ++round) {
            vm.expectEmit(address(ledger));
            emit ITrainingLedger.RoundOpened(
                round, MODEL, CONFIG, expected[round - 1], uint64(vm.getBlockNumber()), uint64(vm.getBlockNumber() + 2), _nobody()
            );
            _equal(_open(), round, "round");
            _equal(ledger.round(round).samplingRate, expected[round - 1], "rate");
            _skip(round);
        }
    }

    /// @dev Up to three phases, each some rounds after the one before.
    function testFuzz_TheRate_IsTheLastThatBegan(uint8 second, uint8 third) public {
        uint40 from = 2 + second % 6;
        Terms memory t = _ratesFrom(1, from, from + 1 + third % 6);
        _redeploy(Membership.Open, _settings(), t);
        for (uint64 round = 1; round <= 14; ++round) {
            uint256 last = 0;
            for (uint256 i = 1; i < 3; ++i) {
                if (t.rates[i].fromRound <= round) last = i;
            }
            _open();
            _equal(ledger.round(round).samplingRate, t.rates[last].perMillion, "rate");
            _skip(round);
        }
    }

    function test_ARoundThatIsHeldAgain_HasTheRateOfItsOwnNumber() public {
        _redeploy(Membership.Open, _settings(), _ratesFrom(1, 2, 4));
        _skip(_open());
        _equal(ledger.round(_open()).samplingRate, _rate(1), "rate");
    }

    // --- how many rounds ---

    function test_AfterTheLastRoundClosed_NoneOpens() public {
        _redeployFor(2, 5);
        _equal(ledger.closedRounds(), 0, "closed");
        _closed(3, 3);
        _equal(ledger.closedRounds(), 1, "closed");
        _skip(_open());
        _equal(ledger.closedRounds(), 1, "closed");
        _closed(3, 3);
        _equal(ledger.closedRounds(), 2, "closed");
        _refusesAsOver(2, 0);
    }

    /// @dev Only sealed rounds count.
    function test_AfterOneSealedFailureTooMany_NoRoundOpens() public {
        _redeployFor(9, 2);
        for (uint32 i = 1; i <= 3; ++i) {
            _skip(_open());
            _fail(_openAndDraw(3)); // never sealed
            _fail(_sealed(3));
            _equal(ledger.failedRounds(), i, "failed rounds");
        }
        _refusesAsOver(0, 3);
    }

    function test_WithoutRepeats_OneSealedFailureIsTooMany() public {
        _redeployFor(2, 0);
        _skip(_open());
        _closed(3, 3);
        _fail(_sealed(3));
        _refusesAsOver(1, 1);
    }

    function test_AMember_Cannot_UseUpRepeatsBySkippedOrUnsealedRounds() public {
        _redeployFor(1, 0);
        for (uint256 i = 0; i < 5; ++i) {
            _fail(_openAndDraw(2));
            _skip(_openAndDraw(1));
        }
        _equal(ledger.failedRounds(), 0, "failed rounds");
        _closed(3, 3);
    }

    function test_AVoiding_GivesTheRoundBack_AndUsesNoRepeat() public {
        _redeployFor(1, 0);
        uint64 round = _closed(3, 3);
        _refusesAsOver(1, 0);
        _void(round);
        _equal(ledger.closedRounds(), 0, "closed");
        _equal(ledger.failedRounds(), 0, "failed rounds");
    }

    function test_AVoiding_TakesTheRunningRoundWithIt_AndGivesOneRoundBack() public {
        _redeployFor(2, 0);
        uint64 round = _closed(3, 3);
        _sealed(3);
        _void(round);
        _inPhase(round + 1, Phase.Voided);
        _equal(ledger.closedRounds(), 0, "closed");
        _equal(ledger.failedRounds(), 0, "failed rounds");
        for (uint256 i = 0; i < 2; ++i) {
            _passTheGrace();
            _closedBy(2);
        }
        _refusesAsOver(2, 0);
    }

    function test_AReplacement_CountsAsTheRoundThatItCorrects() public {
        _redeployFor(1, 0);
        uint64 round = _closed(3, 3);
        _judge(0, round, DIGEST, METRICS);
        _judge(1, round, DIGEST, METRICS);
        _equal(ledger.closedRounds(), 1, "closed");
        _equal(ledger.failedRounds(), 0, "failed rounds");
        vm.roll(vm.getBlockNumber() + 100);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.FederationOver.selector, 1, 0));
        _as(members[2].account);
        ledger.open(DIGEST, _nobody());
    }

    // --- who may act for the coordinator ---

    function test_OnlyTheCoordinator_MayOpenTheFirstRound_HoweverLate() public {
        vm.roll(1_000_000);
        _refusesAllButTheCoordinator(type(uint256).max);
        _as(COORDINATOR);
        _equal(ledger.open(MODEL, _nobody()), 1, "round");
    }

    function test_AStranger_MayNeverOpen() public {
        _closed(3, 3);
        bytes32 model = ledger.currentModel();
        vm.roll(vm.getBlockNumber() + 4);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.NotActiveClient.selector, STRANGER));
        _as(STRANGER);
        ledger.open(model, _nobody());
    }

    function test_AMember_MayOpenTheNextRoundAfterTheGrace() public {
        _closed(3, 3);
        bytes32 model = ledger.currentModel();
        uint256 until = vm.getBlockNumber() + 3;
        vm.roll(until);
        vm.expectRevert(
            abi.encodeWithSelector(ITrainingLedger.OnlyCoordinator.selector, members[0].account, until)
        );
        _as(members[0].account);
        ledger.open(model, _nobody());
        vm.roll(until + 1);
        _as(members[0].account);
        _equal(ledger.open(model, _nobody()), 2, "round");
    }

    function test_AMemberThatMayNotDraw_Cannot_Open() public {
        _redeploy(Membership.Approved, _settings(), _terms());
        _join(3);
        _closed(3, 3);
        bytes32 model = ledger.currentModel();
        vm.roll(vm.getBlockNumber() + 4);
        _revoke(members[0].account);
        _as(members[1].account);
        registry.withdraw(0, 0);
        _as(members[2].account);
        registry.resume();
        for (uint256 i = 0; i < 3; ++i) {
            vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.NotActiveClient.selector, members[i].account));
            _as(members[i].account);
            ledger.open(model, _nobody());
        }
        vm.roll(vm.getBlockNumber() + DELAY);
        _as(members[2].account);
        ledger.open(model, _nobody());
    }

    function test_ARound_Cannot_OpenWhileOneWaitsForItsQuorum() public {
        uint64 round = _openAndDraw(1);
        vm.roll(vm.getBlockNumber() + 100_000);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.RoundRunning.selector, round, Phase.Draw));
        _as(members[0].account);
        ledger.open(MODEL, _nobody());
    }

    /// @dev Three phases of different rates.
    function _ratesFrom(uint40 first, uint40 second, uint40 third) private pure returns (Terms memory t) {
        t = _terms();
        t.rates = new Rate[](3);
        (t.rates[0], t.rates[1], t.rates[2]) =
            (Rate(first, _rate(0)), Rate(second, _rate(1)), Rate(third, _rate(2)));
    }

    function _rate(uint32 phase) private pure returns (uint32) {
        return phase == 1 ? EVERYONE : 1 + phase * 250_000;
    }

    /// @dev Another federation of three members with so many rounds.
    function _redeployFor(uint32 rounds, uint32 repeats) private {
        Settings memory s = _settings();
        (s.rounds, s.repeats) = (rounds, repeats);
        _redeploy(Membership.Open, s, _terms());
        _join(3);
    }

    /// @dev By two of three members.
    function _void(uint64 round) private {
        _judge(0, round, 0, 0);
        _judge(1, round, 0, 0);
        _inPhase(round, Phase.Voided);
    }

    function _passTheGrace() private {
        vm.roll(vm.getBlockNumber() + _settings().coordinatorGrace + 1);
    }

    /// @dev A round that a member opens and closes in the place of the coordinator.
    function _closedBy(uint256 i) private {
        bytes32 model = ledger.currentModel();
        delete tickets;
        _as(members[i].account);
        uint64 round = ledger.open(model, _nobody());
        _toDraw(round);
        _draw(0, round);
        _draw(1, round);
        _draw(2, round);
        _seal(round);
        for (uint256 k = 0; k < 3; ++k) {
            _share(k, round);
        }
        vm.roll(vm.getBlockNumber() + 1);
        for (uint256 k = 0; k < 3; ++k) {
            _commit(k, round);
        }
        vm.roll(vm.getBlockNumber() + 1);
        _release(0, round);
        _release(1, round);
        vm.roll(vm.getBlockNumber() + 7);
        _close(members[i].account, round);
    }

    /// @dev Whoever opens, and whenever.
    function _refusesAsOver(uint32 closed, uint32 failed) private {
        bytes32 model = ledger.currentModel();
        bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.FederationOver.selector, closed, failed);
        vm.roll(vm.getBlockNumber() + 100);
        vm.expectRevert(refusal);
        _as(members[2].account);
        ledger.open(model, _nobody());
        if (ledger.isStruck(COORDINATOR)) return;
        vm.expectRevert(refusal);
        _as(COORDINATOR);
        ledger.open(model, _nobody());
    }

    function _refusedRates(Terms memory t, uint256 index) private {
        _refusedTerms(t, abi.encodeWithSelector(ITrainingLedger.RatesInvalid.selector, index));
    }

    function _refusedTerms(Terms memory t, bytes memory refusal) private {
        _mockRegistry();
        vm.expectRevert(refusal);
        _deployLedger(registry, _settings(), t);
    }

    function _refusedSettings(Settings memory s, bytes32 setting, uint256 value) private {
        _mockRegistry();
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.SettingOutOfRange.selector, setting, value));
        _deployLedger(registry, s, _terms());
    }

    /// @dev Makes the registry name the next contract as its ledger.
    function _mockRegistry() private {
        address next = _addressOfCreation(0);
        vm.mockCall(address(registry), abi.encodeCall(IClientRegistry.ledger, ()), abi.encode(next));
    }

    function _refusesAllButTheCoordinator(uint256 until) private {
        address member = members[0].account;
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.OnlyCoordinator.selector, member, until));
        _as(member);
        ledger.open(MODEL, _nobody());
    }
}
