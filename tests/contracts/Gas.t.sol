// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Membership} from "../../contracts/interfaces/IClientRegistry.sol";
import {Settings} from "../../contracts/interfaces/ITrainingLedger.sol";
import {Federation, Member} from "./harness/Federation.sol";
import {vm} from "./harness/Vm.sol";

/// @notice Gas of whole transactions against the goals: what the sender pays, for a client that has taken part before.
/// `isolate` in foundry.toml makes every call below a transaction, so intrinsic gas, calldata and cold storage count.
contract GasTest is Federation {
    function setUp() public {
        _deploy(Membership.Open);
        _join(3);
        _closed(3, 3);
    }

    /// @dev Half of all proofs need one root (their first candidate is a point), a quarter two, and so on: two on
    /// average.
    function test_Draw_CostsAtMost69000WithOneRoot_And1200ForEachFurther() public {
        bool[3] memory seen;
        while (!(seen[0] && seen[1] && seen[2])) {
            uint64 round = _open();
            _toDraw(round);
            _draw(0, round); // fixes the seed
            Member memory member = members[1];
            (bytes memory message,) = _proof(member, round);
            _as(member.account);
            ledger.draw(round, member.vrfX, member.vrfY, MASK_KEY, SEAL_KEY, 10, message);
            uint256 further = (message.length - 257) / 32 - 1;
            if (further < 3 && !seen[further]) {
                seen[further] = true;
                _atMost(69_000 + further * 1_200, string.concat("draw with roots: ", _digit(further + 1)));
            }
            _fail(round);
        }
    }

    /// @dev A tenth of it for the count that ends the phase.
    function test_Share_CostsAtMost35k_AndTheLastOne1500More() public {
        uint64 round = _sealed(3);
        _share(0, round);
        _share(1, round);
        _atMost(35_000, "share");
        _share(2, round);
        _atMost(36_500, "last share");
    }

    /// @dev That the call is direct costs 150 gas, most of it for the sender's code.
    function test_Commit_CostsAtMost36k_AndTheLastOne1500More() public {
        uint64 round = _sealed(3);
        _share(0, round);
        _share(1, round);
        _share(2, round);
        vm.roll(ledger.round(round).shareEnd + 1);
        _commit(0, round);
        _commit(1, round);
        _atMost(36_000, "commit");
        _commit(2, round);
        _atMost(37_500, "last commit");
    }

    function test_Registration_CostsAtMost120k() public {
        _register(_newMember(1_000));
        _atMost(120_000, "register");
    }

    function test_Withdrawal_CostsAtMost30k() public {
        _as(members[0].account);
        registry.withdraw(3, keccak256("which"));
        _atMost(30_000, "withdraw");
    }

    function test_Judgement_CostsAtMost80k() public {
        _judge(0, 1, _modelOf(1), METRICS);
        _atMost(80_000, "judgement");
    }

    function test_Release_CostsAtMost37k() public {
        uint64 round = _committed(3, 3);
        _release(0, round);
        _release(1, round);
        _atMost(37_000, "release");
    }

    /// @dev For the coordinator, when one round has closed before; one that trains from its model follows.
    function test_Closing_CostsAtMost60k_AndAnOpening100k() public {
        uint64 round = _released(3, 3);
        _close(COORDINATOR, round);
        _atMost(60_000, "close");
        _open();
        _atMost(100_000, "open");
    }

    /// @dev Where updates are bounded; the first voucher puts the hash of the block of the sketch on record.
    function test_VouchersAffirmationsAndReveals_CostAtMost42k_AndTheFirstVoucher90k() public {
        Settings memory s = _settings();
        (s.vouchWindow, s.affirmWindow, s.stages) = (8, 9, 8);
        _redeploy(Membership.Open, s, _terms());
        _join(3);
        uint64 round = _committed(3, 3);
        uint64 sketchBlock = ledger.round(round).sketchBlock;
        bytes32 sketch = _sketchHashOf(round);
        vm.roll(sketchBlock + 1);
        vm.setBlockhash(sketchBlock, sketch);
        for (uint256 i = 0; i < 3; ++i) {
            _as(members[i].account);
            ledger.vouch(round, sketch, DIGEST);
            if (i == 0) _atMost(90_000, "first voucher");
            if (i == 1) _atMost(42_000, "voucher");
        }
        vm.roll(vm.getBlockNumber() + 1);
        _as(members[0].account);
        ledger.reveal(round, sketch, DIGEST);
        _atMost(42_000, "reveal");
        for (uint256 i = 0; i < 3; ++i) {
            _as(members[i].account);
            ledger.affirm(round, sketch, DIGEST);
            if (i == 1) _atMost(42_000, "affirmation");
        }
        vm.roll(vm.getBlockNumber() + 1);
        for (uint256 i = 0; i < 3; ++i) {
            _as(members[i].account);
            ledger.release(round, sketch, DIGEST, 0);
        }
        _atMost(42_000, "release with bounds");
        for (uint256 i = 0; i < 2; ++i) {
            _as(members[i].account);
            ledger.release(round, sketch, DIGEST, 1);
        }
        _atMost(42_000, "further release");
    }

    function _digit(uint256 value) private pure returns (string memory) {
        return string(abi.encodePacked(uint8(48 + value)));
    }

    function _atMost(uint256 goal, string memory what) internal {
        uint256 used = vm.lastCallGas().gasTotalUsed;
        vm.snapshotValue("transactions", what, used);
        require(used <= goal, string.concat(what, " costs more gas than its goal"));
    }
}
