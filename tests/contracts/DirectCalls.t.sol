// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {DirectCalls} from "../../contracts/DirectCalls.sol";
import {IClientRegistry, Membership} from "../../contracts/interfaces/IClientRegistry.sol";
import {ITrainingLedger, Phase, SignedDraw} from "../../contracts/interfaces/ITrainingLedger.sol";
import {Federation} from "./harness/Federation.sol";
import {vm} from "./harness/Vm.sol";

/// @notice Passes a call on, as a wallet that is a contract would.
contract Forwarder {
    function forward(address target, bytes calldata data) external returns (bool done, bytes memory answer) {
        return target.call(data);
    }
}

/// @notice A record lies in a transaction of its author: every function that writes asks for that.
contract DirectCallsTest is Federation {
    Forwarder private forwarder;

    function setUp() public {
        _deploy(Membership.Open);
        _join(1);
        forwarder = new Forwarder();
    }

    function test_ACallThroughAContract_IsRefusedByEveryFunctionThatWrites() public {
        _refusesThroughAContract(address(ledger), _ledgerCalls());
        _refusesThroughAContract(address(registry), _registryCalls());
    }

    function test_AnAccountWithDelegatedCode_IsRefusedByEveryFunctionThatWrites() public {
        address account = members[0].account;
        vm.etch(account, abi.encodePacked(hex"ef0100", address(forwarder)));
        _refusesAccount(account, address(ledger), _ledgerCalls());
        _refusesAccount(account, address(registry), _registryCalls());
    }

    /// @dev A deposit of the OP stack has the price 0, whatever the base fee. Isolated calls see no base fee.
    /// forge-config: default.isolate = false
    function test_ATransactionThatPaysLessThanTheBaseFee_IsRefusedByEveryFunctionThatWrites() public {
        vm.fee(7);
        vm.txGasPrice(0);
        _refusesAccount(members[0].account, address(ledger), _ledgerCalls());
        _refusesAccount(members[0].account, address(registry), _registryCalls());
    }

    function test_ATransactionOfTheAccount_IsTaken() public {
        _as(members[0].account);
        registry.withdraw(0, 0);
    }

    /// forge-config: default.isolate = false
    function test_ATransactionThatPaysTheBaseFee_IsTaken() public {
        vm.fee(7);
        vm.txGasPrice(7);
        _as(members[0].account);
        registry.withdraw(0, 0);
    }

    /// @dev The transaction is the member's own, but to another contract.
    function _refusesThroughAContract(address target, bytes[] memory calls) private {
        for (uint256 i = 0; i < calls.length; ++i) {
            _as(members[0].account);
            (bool done, bytes memory answer) = forwarder.forward(target, calls[i]);
            _notDirect(done, answer, address(forwarder));
        }
    }

    function _refusesAccount(address account, address target, bytes[] memory calls) private {
        for (uint256 i = 0; i < calls.length; ++i) {
            _as(account);
            (bool done, bytes memory answer) = target.call(calls[i]);
            _notDirect(done, answer, account);
        }
    }

    function _notDirect(bool done, bytes memory answer, address caller) private pure {
        bytes memory refusal = abi.encodeWithSelector(DirectCalls.NotDirect.selector, caller);
        require(!done && keccak256(answer) == keccak256(refusal), "not refused, or for another reason");
    }

    function _ledgerCalls() private view returns (bytes[] memory calls) {
        calls = new bytes[](16);
        calls[0] = abi.encodeCall(ITrainingLedger.open, (MODEL, _nobody()));
        calls[1] = abi.encodeCall(ITrainingLedger.fixSeed, (1));
        calls[2] = abi.encodeCall(
            ITrainingLedger.draw, (1, members[0].vrfX, members[0].vrfY, MASK_KEY, SEAL_KEY, 10, "")
        );
        calls[3] = abi.encodeCall(ITrainingLedger.drawBatch, (1, new SignedDraw[](0)));
        calls[4] = abi.encodeCall(ITrainingLedger.seal, (1, "", "", ""));
        calls[5] = abi.encodeCall(ITrainingLedger.sealChunk, (1, "", ""));
        calls[6] = abi.encodeCall(ITrainingLedger.skip, (1));
        calls[7] = abi.encodeCall(ITrainingLedger.share, (1, MODEL));
        calls[8] = abi.encodeCall(ITrainingLedger.commit, (1, MODEL, MODEL));
        calls[9] = abi.encodeCall(ITrainingLedger.release, (1, MODEL, MODEL, 0));
        calls[10] = abi.encodeCall(ITrainingLedger.close, (1, MODEL, MODEL));
        calls[11] = abi.encodeCall(ITrainingLedger.fail, (1));
        calls[12] = abi.encodeCall(ITrainingLedger.judge, (1, Phase.Closed, MODEL, MODEL));
        calls[13] = abi.encodeCall(ITrainingLedger.vouch, (1, MODEL, MODEL));
        calls[14] = abi.encodeCall(ITrainingLedger.affirm, (1, MODEL, MODEL));
        calls[15] = abi.encodeCall(ITrainingLedger.reveal, (1, MODEL, MODEL));
    }

    function _registryCalls() private view returns (bytes[] memory calls) {
        calls = new bytes[](7);
        calls[0] = abi.encodeCall(IClientRegistry.register, (members[0].vrfX, members[0].vrfY, MAILBOX, ""));
        calls[1] = abi.encodeCall(IClientRegistry.rotateVrfKey, (members[0].vrfX, members[0].vrfY, ""));
        calls[2] = abi.encodeCall(IClientRegistry.rotateMailboxKey, (MAILBOX));
        calls[3] = abi.encodeCall(IClientRegistry.withdraw, (0, 0));
        calls[4] = abi.encodeCall(IClientRegistry.approve, (_accounts(1)));
        calls[5] = abi.encodeCall(IClientRegistry.revoke, (STRANGER));
        calls[6] = abi.encodeCall(IClientRegistry.resume, ());
    }
}
