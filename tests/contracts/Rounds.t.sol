// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IClientRegistry} from "../../contracts/interfaces/IClientRegistry.sol";
import {FailureReason, ITrainingLedger, Phase, RoundView, Settings} from "../../contracts/interfaces/ITrainingLedger.sol";
import {Federation} from "./harness/Federation.sol";
import {vm} from "./harness/Vm.sol";

/// @notice Deployment, opening, and who may act for the coordinator.
contract RoundsTest is Federation {
    bytes32 private constant DIGEST = keccak256("digest");

    function setUp() public {
        _deploy(true);
        _join(3);
    }

    // --- deployment ---

    function test_Deployment_RefusesARegistryOfAnotherLedger() public {
        vm.expectRevert(
            abi.encodeWithSelector(ITrainingLedger.WrongRegistry.selector, address(registry), address(ledger))
        );
        _deployLedger(registry, _settings());
    }

    function test_Deployment_RefusesSettingsThatCannotWork() public {
        Settings memory s = _settings();
        s.seedDelay = 0;
        _refusedSettings(s, "seedDelay", 0);
        s = _settings();
        s.closeWindow = 0;
        _refusedSettings(s, "closeWindow", 0);
        s = _settings();
        s.quorum = 5;
        _refusedSettings(s, "maxClients", 4);
        s = _settings();
        s.absenceLimit = 0;
        _refusedSettings(s, "absenceLimit", 0);
        s = _settings();
        s.maxSamples = 0;
        _refusedSettings(s, "maxSamples", 0);
    }

    function test_Settings_AreThoseOfTheDeployment() public view {
        _equal(keccak256(abi.encode(ledger.settings())), keccak256(abi.encode(_settings())), "settings");
        require(ledger.coordinator() == COORDINATOR && address(ledger.registry()) == address(registry), "parties");
    }

    // --- open ---

    function test_TheFirstRound_SetsTheModel() public {
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.RoundOpened(1, MODEL, CONFIG, 500_000, uint64(block.number), uint64(block.number + 2));
        vm.prank(COORDINATOR);
        _equal(ledger.open(MODEL, CONFIG, 500_000), 1, "round");
        _equal(ledger.currentModel(), MODEL, "model");
        _equal(ledger.currentRound(), 1, "current round");
        RoundView memory view_ = ledger.round(1);
        uint256 b = block.number;
        _equal(view_.openedAt, b, "openedAt");
        _equal(view_.seedBlock, b + 2, "seedBlock");
        _equal(view_.drawEnd, b + 12, "drawEnd");
        _equal(view_.sealEnd, b + 17, "sealEnd");
        _equal(view_.shareEnd, b + 23, "shareEnd");
        _equal(view_.commitEnd, b + 30, "commitEnd");
        _equal(view_.recoverEnd, b + 38, "recoverEnd");
        _equal(view_.closeEnd, b + 47, "closeEnd");
        _equal(view_.samplingRate, 500_000, "rate");
        _equal(view_.modelDigest, MODEL, "the round's model");
    }

    function test_ARoundThatDoesNotExist_IsAllZero() public view {
        RoundView memory empty;
        _equal(keccak256(abi.encode(ledger.round(7))), keccak256(abi.encode(empty)), "view");
        _inPhase(7, Phase.None);
    }

    function test_ASecondRound_Cannot_OpenWhileOneRuns() public {
        uint64 round = _open(EVERYONE);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.RoundRunning.selector, round, Phase.Seeding));
        vm.prank(COORDINATOR);
        ledger.open(MODEL, CONFIG, EVERYONE);
    }

    function test_ARound_OpensOnlyOnTheCurrentModel() public {
        _closed(3, 3);
        bytes32 current = keccak256(abi.encode("model", uint64(1)));
        _equal(ledger.currentModel(), current, "model");
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.WrongModel.selector, MODEL, current));
        vm.prank(COORDINATOR);
        ledger.open(MODEL, CONFIG, EVERYONE);
    }

    function test_OpeningWithNoModelOrAnImpossibleRate_IsRefused() public {
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.ZeroDigest.selector, 1));
        vm.prank(COORDINATOR);
        ledger.open(0, CONFIG, EVERYONE);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.SamplingRateOutOfRange.selector, 0));
        vm.prank(COORDINATOR);
        ledger.open(MODEL, CONFIG, 0);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.SamplingRateOutOfRange.selector, EVERYONE + 1));
        vm.prank(COORDINATOR);
        ledger.open(MODEL, CONFIG, EVERYONE + 1);
    }

    // --- who may act for the coordinator ---

    function test_OnlyTheCoordinator_MayOpenTheFirstRound_HoweverLate() public {
        vm.roll(1_000_000);
        _refusesAllButTheCoordinator(type(uint256).max);
        vm.prank(COORDINATOR);
        _equal(ledger.open(MODEL, CONFIG, EVERYONE), 1, "round");
    }

    function test_TheTerms_AreThoseOfTheFirstRound() public {
        _closed(3, 3);
        bytes32 model = ledger.currentModel();
        bytes32 others = keccak256("other terms");
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.WrongConfig.selector, others, CONFIG));
        vm.prank(COORDINATOR);
        ledger.open(model, others, EVERYONE);
    }

    function test_AStranger_MayNeverOpen() public {
        _closed(3, 3);
        bytes32 model = ledger.currentModel();
        vm.roll(vm.getBlockNumber() + 4);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.NotActiveClient.selector, STRANGER));
        vm.prank(STRANGER);
        ledger.open(model, CONFIG, EVERYONE);
    }

    function test_AMember_MayOpenTheNextRoundAfterTheGrace() public {
        _closed(3, 3);
        bytes32 model = ledger.currentModel();
        uint256 until = vm.getBlockNumber() + 3;
        vm.roll(until);
        vm.expectRevert(
            abi.encodeWithSelector(ITrainingLedger.OnlyCoordinator.selector, members[0].account, until)
        );
        vm.prank(members[0].account);
        ledger.open(model, CONFIG, EVERYONE);
        vm.roll(until + 1);
        vm.prank(members[0].account);
        _equal(ledger.open(model, CONFIG, EVERYONE), 2, "round");
    }

    function test_AMember_MayRecoverAndCloseAfterTheGrace() public {
        uint64 round = _committed(3, 3);
        uint256 until = ledger.round(round).commitEnd + 3;
        vm.roll(until);
        vm.expectRevert(
            abi.encodeWithSelector(ITrainingLedger.OnlyCoordinator.selector, members[1].account, until)
        );
        vm.prank(members[1].account);
        ledger.recover(round, DIGEST);
        vm.roll(until + 1);
        vm.prank(members[1].account);
        ledger.recover(round, DIGEST);
        until = vm.getBlockNumber() + 3;
        vm.roll(until);
        vm.expectRevert(
            abi.encodeWithSelector(ITrainingLedger.OnlyCoordinator.selector, members[1].account, until)
        );
        vm.prank(members[1].account);
        ledger.close(round, DIGEST, DIGEST);
        vm.roll(until + 1);
        vm.prank(members[1].account);
        ledger.close(round, DIGEST, DIGEST);
        _inPhase(round, Phase.Closed);
    }

    function test_AStranger_Cannot_RecoverCloseOrFail() public {
        uint64 round = _committed(3, 3);
        uint256 until = ledger.round(round).commitEnd + 3;
        bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.OnlyCoordinator.selector, STRANGER, until);
        vm.expectRevert(refusal);
        vm.prank(STRANGER);
        ledger.recover(round, DIGEST);
        vm.expectRevert(refusal);
        vm.prank(STRANGER);
        ledger.fail(round, FailureReason.TooFewShares, DIGEST);
        vm.roll(until + 1);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.NotActiveClient.selector, STRANGER));
        vm.prank(STRANGER);
        ledger.fail(round, FailureReason.TooFewShares, DIGEST);
    }

    function _refusedSettings(Settings memory s, bytes32 setting, uint256 value) private {
        address next = vm.computeCreateAddress(address(this), vm.getNonce(address(this)));
        vm.mockCall(address(registry), abi.encodeCall(IClientRegistry.ledger, ()), abi.encode(next));
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.SettingOutOfRange.selector, setting, value));
        _deployLedger(registry, s);
    }

    function _refusesAllButTheCoordinator(uint256 until) private {
        address member = members[0].account;
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.OnlyCoordinator.selector, member, until));
        vm.prank(member);
        ledger.open(MODEL, CONFIG, EVERYONE);
    }
}
