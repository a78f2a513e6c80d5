// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Membership} from "../../../contracts/interfaces/IClientRegistry.sol";
import {ITrainingLedger, Phase} from "../../../contracts/interfaces/ITrainingLedger.sol";
import {Federation} from "./Federation.sol";
import {vm} from "./Vm.sol";

/// @notice A federation of four whose rounds are judged.
abstract contract JudgedFederation is Federation {
    bytes32 internal constant RIGHT = keccak256("the right model");
    bytes32 internal constant RIGHT_METRICS = keccak256("the right metrics");

    function setUp() public {
        _deploy(Membership.Open);
        _join(4);
    }

    // --- rounds ---

    /// @dev A round in which the members of the bits `draws` draw and, if they are a quorum, those of `commits` commit.
    /// It is left running, as far as it came, or it is skipped or fails.
    function _play(uint256 draws, uint256 commits, bool running) internal returns (uint64 round) {
        round = _open();
        _drawAll(round, draws);
        if (_bits(draws) < 2) {
            if (!running) _skip(round);
            return round;
        }
        _bring(round, commits, 0);
        if (!running) _fail(round);
    }

    /// @dev The members of these bits draw, in the first block in which they may.
    function _drawAll(uint64 round, uint256 draws) internal {
        _toDraw(round);
        for (uint256 i = 0; i < 4; ++i) {
            if ((draws >> i) & 1 == 1) _draw(i, round);
        }
    }

    /// @dev Takes a round from the end of its draws to its recover phase: those of `commits` commit, two of `releases`
    /// release.
    function _bring(uint64 round, uint256 commits, uint256 releases) internal returns (uint64) {
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

    // --- judgements ---

    function _stands(uint64 round, bytes32 model) internal view {
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
    ) internal {
        vm.expectRevert(refusal);
        _as(members[i].account);
        ledger.judge(round, asked, model, metrics);
    }

    function _refusesAccount(address account, uint64 round) internal {
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.NotCommitted.selector, round, account));
        _as(account);
        ledger.judge(round, Phase.Closed, RIGHT, METRICS);
    }

    function _alreadyJudged(uint64 round, uint256 client) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(ITrainingLedger.AlreadyJudged.selector, round, client);
    }

    function _notJudgeable(uint64 round, uint64 standing) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(ITrainingLedger.NotJudgeable.selector, round, standing);
    }
}
