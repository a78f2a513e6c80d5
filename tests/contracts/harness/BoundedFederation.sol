// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Membership} from "../../../contracts/interfaces/IClientRegistry.sol";
import {ITrainingLedger, Phase, Settings} from "../../../contracts/interfaces/ITrainingLedger.sol";
import {Federation} from "./Federation.sol";
import {vm} from "./Vm.sol";

/// @notice A federation of four that bounds updates, and further steps of its rounds.
abstract contract BoundedFederation is Federation {
    bytes32 internal constant WORD = keccak256("word");
    bytes32 internal constant OTHER_BRANCH = keccak256("the same block on another branch");

    function setUp() public virtual {
        _deploy(Membership.Open);
        _join(4);
    }

    function _settings() internal pure virtual override returns (Settings memory s) {
        s = super._settings();
        (s.vouchWindow, s.affirmWindow, s.stages) = (8, 9, 2);
    }

    /// @dev Where somebody vouched.
    function _sketchOf(uint64 round) internal view virtual override returns (bytes32) {
        return _sketchHashOf(round);
    }

    /// @dev A round in which all four drew and the first `committed` of them committed, in the first block in which
    /// they can vouch.
    function _toVouch(uint256 committed) internal returns (uint64 round) {
        round = _committed(4, committed);
        uint64 sketchBlock = ledger.round(round).sketchBlock;
        vm.roll(sketchBlock + 1);
        vm.setBlockhash(sketchBlock, _sketchHashOf(round));
    }

    /// @dev A round in the affirm phase, in which all four committed and the first `vouched` vouched.
    function _toAffirm(uint256 vouched) internal returns (uint64 round) {
        round = _toVouch(4);
        for (uint256 i = 0; i < vouched; ++i) {
            _vouch(i, round);
        }
        vm.roll(ledger.round(round).vouchEnd + 1);
    }

    /// @dev A round in the recover phase, in which all vouched and affirmed and the first `released` released.
    function _toRecover(uint256 released) internal returns (uint64 round) {
        round = _toAffirm(4);
        for (uint256 i = 0; i < 4; ++i) {
            _affirm(i, round);
        }
        vm.roll(ledger.round(round).affirmEnd + 1);
        for (uint256 i = 0; i < released; ++i) {
            _release(i, round);
        }
    }

    function _vouch(uint256 i, uint64 round) internal {
        _vouchAs(members[i].account, round, _sketchHashOf(round));
    }

    function _vouchAs(address account, uint64 round, bytes32 blockHash) internal {
        _as(account);
        ledger.vouch(round, blockHash, DIGEST);
    }

    function _affirm(uint256 i, uint64 round) internal {
        _affirmAs(members[i].account, round, _sketchHashOf(round));
    }

    function _affirmAs(address account, uint64 round, bytes32 blockHash) internal {
        _as(account);
        ledger.affirm(round, blockHash, WORD);
    }

    function _reveal(uint256 i, uint64 round) internal {
        _revealAs(members[i].account, round, _sketchHashOf(round));
    }

    function _revealAs(address account, uint64 round, bytes32 blockHash) internal {
        _as(account);
        ledger.reveal(round, blockHash, DIGEST);
    }

    function _releaseIn(uint256 i, uint64 round, uint16 stage) internal {
        _as(members[i].account);
        ledger.release(round, _sketchOf(round), DIGEST, stage);
    }

    // --- refusals; whatever they need of the ledger is asked before ---

    function _refuse(bytes memory refusal) internal {
        vm.expectRevert(refusal);
    }

    function _wrongHash(uint64 round, bytes32 known) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(ITrainingLedger.WrongBlockHash.selector, round, known);
    }

    function _notOpen(uint64 round, uint256 stage) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(ITrainingLedger.StageNotOpen.selector, round, stage);
    }

    function _notCommitted(uint64 round, address account) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(ITrainingLedger.NotCommitted.selector, round, account);
    }

    function _refusesStage(uint256 i, uint64 round, uint16 stage) internal {
        _refuse(_notOpen(round, stage));
        _releaseIn(i, round, stage);
    }

    function _refusesNothing(uint256 i, uint64 round, bytes memory refusal) internal {
        _refuse(refusal);
        _as(members[i].account);
        ledger.judge(round, Phase.Recover, 0, 0);
    }

    function _refusesFail(uint64 round, Phase current) internal {
        _refuse(_wrongPhase(round, current, Phase.Overdue));
        _as(STRANGER);
        ledger.fail(round);
    }
}
