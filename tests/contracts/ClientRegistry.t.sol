// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ECVRF} from "../../contracts/ECVRF.sol";
import {ClientView, IClientRegistry} from "../../contracts/interfaces/IClientRegistry.sol";
import {Federation, Member} from "./harness/Federation.sol";
import {Prover} from "./harness/Prover.sol";
import {vm} from "./harness/Vm.sol";

contract ClientRegistryTest is Federation {
    Member private alice;
    Member private bob;

    function setUp() public {
        _deploy(true);
        alice = _newMember(1);
        bob = _newMember(2);
    }

    function test_Registration_GivesIndicesFromOne() public {
        _equal(_register(alice), 1, "first index");
        _equal(_register(bob), 2, "second index");
        _equal(registry.clientCount(), 2, "count");
        ClientView memory client = registry.clientOf(bob.account);
        _equal(client.client, 2, "index");
        _equal(client.activeFrom, block.number + DELAY, "activeFrom");
        _equal(client.keyTag, uint160(uint256(keccak256(abi.encode(bob.vrfX, bob.vrfY)))), "keyTag");
        require(client.approved && client.absences == 0, "a new client");
    }

    function test_Registration_EmitsTheProofOfPossession() public {
        bytes memory message = _possession(alice);
        uint64 from = uint64(block.number + DELAY);
        bytes memory proof = _rebuilt(alice, message);
        vm.expectEmit(address(registry));
        emit IClientRegistry.Registered(alice.account, 1, alice.vrfX, alice.vrfY, MAILBOX, from, proof);
        _as(alice.account);
        registry.register(alice.vrfX, alice.vrfY, MAILBOX, message);
    }

    function test_RegistrationWithTheSameKeys_ReturnsTheIndexAndNeedsNoProof() public {
        _register(alice);
        vm.roll(block.number + 50);
        _as(alice.account);
        _equal(registry.register(alice.vrfX, alice.vrfY, MAILBOX, ""), 1, "index");
        _equal(registry.clientOf(alice.account).activeFrom, 100 + DELAY, "activeFrom");
    }

    function test_RegistrationWithOtherKeys_IsRefused() public {
        _register(alice);
        bytes memory refusal = abi.encodeWithSelector(IClientRegistry.AlreadyRegistered.selector, alice.account, 1);
        vm.expectRevert(refusal);
        _as(alice.account);
        registry.register(bob.vrfX, bob.vrfY, MAILBOX, "");
        vm.expectRevert(refusal);
        _as(alice.account);
        registry.register(alice.vrfX, alice.vrfY, keccak256("another mailbox"), "");
    }

    function test_AKeyOfSomebodyElse_IsRefused() public {
        _register(alice);
        uint160 tag = registry.clientOf(alice.account).keyTag;
        bytes memory message = _possessionOf(alice.secret, bob.account);
        vm.expectRevert(abi.encodeWithSelector(IClientRegistry.KeyTaken.selector, tag, alice.account));
        _as(bob.account);
        registry.register(alice.vrfX, alice.vrfY, MAILBOX, message);
    }

    function test_APossessionProofOfAnotherAccount_IsRefused() public {
        bytes memory message = _possession(alice);
        vm.expectRevert(); // the candidates of try-and-increment differ, so which check refuses depends on the hash
        _as(bob.account);
        registry.register(alice.vrfX, alice.vrfY, MAILBOX, message);
    }

    function test_APossessionProofForAnotherRegistryOrChain_IsRefused() public {
        (IClientRegistry other,) = _deployPair(true, _settings(), _terms());
        bytes memory message = _possession(alice);
        vm.expectRevert();
        _as(alice.account);
        other.register(alice.vrfX, alice.vrfY, MAILBOX, message);
        vm.chainId(block.chainid + 1);
        vm.expectRevert();
        _as(alice.account);
        registry.register(alice.vrfX, alice.vrfY, MAILBOX, message);
    }

    function test_AnEmptyProof_IsRefused() public {
        vm.expectRevert(abi.encodeWithSelector(ECVRF.MessageLengthInvalid.selector, 0));
        _as(alice.account);
        registry.register(alice.vrfX, alice.vrfY, MAILBOX, "");
    }

    function test_APointOffTheCurveOrNotCanonical_IsRefused() public {
        _refusedKey(alice.vrfX, alice.vrfY + 1);
        _refusedKey(0, 0);
        unchecked {
            _refusedKey(alice.vrfX, alice.vrfY + Prover.P);
        }
        _refusedKey(Prover.P, alice.vrfY);
    }

    function test_AZeroMailboxKey_IsRefused() public {
        vm.expectRevert(abi.encodeWithSelector(IClientRegistry.ZeroMailboxKey.selector, alice.account));
        _as(alice.account);
        registry.register(alice.vrfX, alice.vrfY, 0, "");
    }

    function test_RotatingTheVrfKey_DelaysActivityAndKeepsTheOldKeyTaken() public {
        _register(alice);
        vm.roll(200);
        bytes memory message = _possessionOf(bob.secret, alice.account);
        vm.expectEmit(address(registry));
        emit IClientRegistry.VrfKeyRotated(
            alice.account, 1, bob.vrfX, bob.vrfY, uint64(200 + DELAY), _rebuilt(bob, message)
        );
        _as(alice.account);
        registry.rotateVrfKey(bob.vrfX, bob.vrfY, message);
        ClientView memory client = registry.clientOf(alice.account);
        _equal(client.activeFrom, 200 + DELAY, "activeFrom");
        _equal(client.keyTag, uint160(uint256(keccak256(abi.encode(bob.vrfX, bob.vrfY)))), "keyTag");

        uint160 old = uint160(uint256(keccak256(abi.encode(alice.vrfX, alice.vrfY))));
        vm.expectRevert(abi.encodeWithSelector(IClientRegistry.KeyTaken.selector, old, alice.account));
        _as(alice.account);
        registry.rotateVrfKey(alice.vrfX, alice.vrfY, "");
        // A restart with the new key and the mailbox key of before is no error.
        _as(alice.account);
        _equal(registry.register(bob.vrfX, bob.vrfY, MAILBOX, ""), 1, "index");
    }

    function test_RotatingTheMailboxKey_TakesEffectAtOnce() public {
        _register(alice);
        bytes32 fresh = keccak256("fresh mailbox");
        vm.expectEmit(address(registry));
        emit IClientRegistry.MailboxKeyRotated(alice.account, 1, fresh);
        _as(alice.account);
        registry.rotateMailboxKey(fresh);
        _as(alice.account);
        _equal(registry.register(alice.vrfX, alice.vrfY, fresh, ""), 1, "index");
        vm.expectRevert(abi.encodeWithSelector(IClientRegistry.AlreadyRegistered.selector, alice.account, 1));
        _as(alice.account);
        registry.register(alice.vrfX, alice.vrfY, MAILBOX, "");
    }

    function test_AStranger_Cannot_RotateKeys() public {
        bytes memory refusal = abi.encodeWithSelector(IClientRegistry.NotRegistered.selector, STRANGER);
        vm.expectRevert(refusal);
        _as(STRANGER);
        registry.rotateMailboxKey(MAILBOX);
        vm.expectRevert(refusal);
        _as(STRANGER);
        registry.rotateVrfKey(alice.vrfX, alice.vrfY, "");
    }

    function test_AWithdrawal_IsOnRecordUnderTheCallersIndex() public {
        _register(bob);
        _register(alice);
        vm.expectEmit(address(registry));
        emit IClientRegistry.Withdrawn(alice.account, 2, 7, keccak256("which"));
        _as(alice.account);
        registry.withdraw(7, keccak256("which"));
    }

    function test_AStranger_Cannot_Withdraw() public {
        vm.expectRevert(abi.encodeWithSelector(IClientRegistry.NotRegistered.selector, STRANGER));
        _as(STRANGER);
        registry.withdraw(0, 0);
    }

    function test_ARevokedMember_Can_StillWithdraw() public {
        _deploy(false);
        _register(alice);
        _as(ADMIN);
        registry.approve(alice.account);
        _as(ADMIN);
        registry.revoke(alice.account);
        _as(alice.account);
        registry.withdraw(0, 0);
    }

    function test_NobodyButTheLedger_Can_RecordAbsences() public {
        _register(alice);
        vm.expectRevert(abi.encodeWithSelector(IClientRegistry.NotLedger.selector, ADMIN));
        _as(ADMIN);
        registry.recordAbsence(alice.account);
        _as(address(ledger));
        _equal(registry.recordAbsence(alice.account), 1, "absences");
        vm.expectRevert(abi.encodeWithSelector(IClientRegistry.NotRegistered.selector, bob.account));
        _as(address(ledger));
        registry.recordAbsence(bob.account);
    }

    function test_OpenMembership_KnowsNoApproval() public {
        vm.expectRevert(IClientRegistry.MembershipIsOpen.selector);
        _as(ADMIN);
        registry.approve(alice.account);
        vm.expectRevert(IClientRegistry.MembershipIsOpen.selector);
        _as(ADMIN);
        registry.revoke(alice.account);
    }

    function test_NobodyButTheAdmin_Can_ApproveOrRevoke() public {
        (registry,) = _deployPair(false, _settings(), _terms());
        vm.expectRevert(abi.encodeWithSelector(IClientRegistry.NotAdmin.selector, STRANGER));
        _as(STRANGER);
        registry.approve(STRANGER);
        vm.expectRevert(abi.encodeWithSelector(IClientRegistry.NotAdmin.selector, STRANGER));
        _as(STRANGER);
        registry.revoke(STRANGER);
    }

    function test_Approval_MayPrecedeRegistrationAndCanBeRevoked() public {
        (registry,) = _deployPair(false, _settings(), _terms());
        _as(ADMIN);
        registry.approve(alice.account);
        _register(alice);
        require(registry.clientOf(alice.account).approved, "approved before");
        _register(bob);
        require(!registry.clientOf(bob.account).approved, "not approved");
        _as(ADMIN);
        registry.revoke(alice.account);
        require(!registry.clientOf(alice.account).approved, "revoked");
        _equal(registry.revokedAt(alice.account), vm.getBlockNumber(), "block of the revocation");
        _equal(registry.revokedAt(bob.account), 0, "block of no revocation");
        _equal(registry.clientOf(alice.account).client, 1, "index stays");
    }

    function test_ALateApproval_DelaysActivity() public {
        (registry,) = _deployPair(false, _settings(), _terms());
        _register(alice);
        vm.roll(500);
        _as(ADMIN);
        registry.approve(alice.account);
        _equal(registry.clientOf(alice.account).activeFrom, 500 + DELAY, "activeFrom");
        vm.roll(600);
        _as(ADMIN);
        registry.approve(alice.account);
        _equal(registry.clientOf(alice.account).activeFrom, 500 + DELAY, "a second approval changes nothing");
    }

    function test_Deployment_RefusesParametersThatCannotWork() public {
        vm.expectRevert(abi.encodeWithSelector(IClientRegistry.ZeroAddress.selector, bytes32("ledger")));
        _deployRegistry(true, ADMIN, address(0), 0);
        vm.expectRevert(abi.encodeWithSelector(IClientRegistry.ZeroAddress.selector, bytes32("admin")));
        _deployRegistry(false, address(0), address(1), 0);
        vm.expectRevert(abi.encodeWithSelector(IClientRegistry.ActivationDelayOutOfRange.selector, 0));
        _deployRegistry(true, ADMIN, address(1), 0);
        vm.expectRevert(abi.encodeWithSelector(IClientRegistry.ActivationDelayOutOfRange.selector, 1 << 32));
        _deployRegistry(true, ADMIN, address(1), 1 << 32);
    }

    function testFuzz_ThePackedRecord_SaysWhatTheViewSays(uint8 absences) public {
        _register(alice);
        for (uint256 i = 0; i < absences % 8; ++i) {
            _as(address(ledger));
            registry.recordAbsence(alice.account);
        }
        ClientView memory client = registry.clientOf(alice.account);
        uint256 word = uint256(client.keyTag) | (uint256(client.client) << 160) | (uint256(client.activeFrom) << 192);
        word |= (uint256(client.absences) << 232) | (uint256(1) << 248);
        (, bytes memory answer) =
            address(registry).staticcall(abi.encodeCall(IClientRegistry.packedClientOf, (alice.account)));
        _equal(bytes32(answer), bytes32(word), "packed record");
        _equal(client.absences, absences % 8, "absences");
    }

    function _possessionOf(uint256 secret, address account) private returns (bytes memory message) {
        (message,) = Prover.prove(secret, _registerAlpha(address(registry), account));
    }

    /// @dev The 81-byte proof of a message: the challenge is what the prover solved s for, so read it off by the library.
    function _rebuilt(Member memory member, bytes memory message) private view returns (bytes memory) {
        return this.proofOf(member.vrfX, member.vrfY, _registerAlpha(address(registry), alice.account), message);
    }

    function proofOf(uint256 x, uint256 y, bytes32 alpha, bytes calldata message) external view returns (bytes memory) {
        (, uint128 challenge) = ECVRF.verify(x, y, alpha, message);
        return abi.encodePacked(message[256], message[0:32], challenge, message[32:64]);
    }

    function _refusedKey(uint256 x, uint256 y) private {
        vm.expectRevert(abi.encodeWithSelector(IClientRegistry.NotOnCurve.selector, x, y));
        _as(alice.account);
        registry.register(x, y, MAILBOX, "");
    }
}
