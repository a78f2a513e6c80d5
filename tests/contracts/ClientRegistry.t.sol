// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ECVRF} from "../../contracts/ECVRF.sol";
import {ClientView, IClientRegistry, Membership} from "../../contracts/interfaces/IClientRegistry.sol";
import {Federation, Member} from "./harness/Federation.sol";
import {Prover} from "./harness/Prover.sol";
import {vm} from "./harness/Vm.sol";

contract ClientRegistryTest is Federation {
    Member private alice;
    Member private bob;

    function setUp() public {
        _deploy(Membership.Open);
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
        require(client.approved && !client.left, "a new client");
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
        (IClientRegistry other,) = _deployPair(Membership.Open, _nobody(), _settings(), _terms());
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
        _deploy(Membership.Approved);
        _approve(alice.account);
        _register(alice);
        _revoke(alice.account);
        _as(alice.account);
        registry.withdraw(0, 0);
        require(registry.clientOf(alice.account).left, "it left");
    }

    // --- named members ---

    function test_NamedMembers_MayRegister_AndNobodyElse() public {
        _deployNamed(2);
        require(registry.membership() == Membership.Named && registry.admin() == address(0), "named");
        Member memory third = _newMember(3);
        _refusesRegistration(third);
        _equal(_register(members[1]), 1, "index");
        _equal(_register(members[0]), 2, "index");
        _refusesRegistration(third);
        _equal(registry.clientCount(), 2, "clients");
        _equal(registry.memberCount(), 2, "members");
    }

    function test_TheConstructor_ApprovesTheNamed_OnceEach() public {
        address[] memory named = new address[](3);
        (named[0], named[1], named[2]) = (alice.account, bob.account, alice.account);
        (registry, ledger) = _deployPair(Membership.Named, named, _settings(), _terms());
        ClientView memory client = registry.clientOf(alice.account);
        require(client.approved && client.client == 0 && client.activeFrom == 0, "named, not registered");
        require(!registry.clientOf(STRANGER).approved, "not named");
        _equal(registry.memberCount(), 0, "members");
        _equal(registry.clientCount(), 0, "clients");
    }

    function test_TheConstructor_SaysWhomItNamed() public {
        address[] memory named = new address[](1);
        named[0] = alice.account;
        vm.expectEmit(_addressOfCreation(0));
        emit IClientRegistry.RegistryFounded();
        vm.expectEmit(_addressOfCreation(0));
        emit IClientRegistry.Approved(alice.account, 0);
        _deployRegistry(Membership.Named, address(0), address(1), DELAY, named);
    }

    function test_TheFounder_MayNameMore_UntilTheFirstRoundOpens() public {
        _deployNamed(2);
        _register(members[0]);
        vm.expectEmit(address(registry));
        emit IClientRegistry.Approved(STRANGER, 0);
        _approve(STRANGER);
        Member memory late = _newMember(7);
        _approve(late.account);
        _equal(_register(late), 2, "index");
        _open();
        vm.expectRevert(IClientRegistry.MembersFixed.selector);
        _as(FOUNDER);
        registry.approve(_list(alice.account));
        vm.roll(vm.getBlockNumber() + 100_000);
        vm.expectRevert(IClientRegistry.MembersFixed.selector);
        _as(FOUNDER);
        registry.approve(_list(alice.account));
    }

    function test_NobodyButTheFounder_MayName() public {
        _deployNamed(2);
        address[4] memory others = [ADMIN, COORDINATOR, members[0].account, address(0)];
        for (uint256 i = 0; i < 4; ++i) {
            vm.expectRevert(abi.encodeWithSelector(IClientRegistry.NotAdmin.selector, others[i]));
            _as(others[i]);
            registry.approve(_list(STRANGER));
        }
    }

    /// @dev Without an admin there is nobody who could, not even the founder.
    function test_NobodyRevokes_ANamedMember() public {
        _deployNamed(2);
        _register(members[0]);
        address[4] memory others = [FOUNDER, ADMIN, COORDINATOR, address(0)];
        for (uint256 i = 0; i < 4; ++i) {
            vm.expectRevert(abi.encodeWithSelector(IClientRegistry.NotAdmin.selector, others[i]));
            _as(others[i]);
            registry.revoke(members[0].account);
        }
        require(registry.clientOf(members[0].account).approved, "revoked");
    }

    // --- approved members ---

    function test_OpenMembership_KnowsNoApproval() public {
        require(registry.membership() == Membership.Open, "open");
        vm.expectRevert(IClientRegistry.MembershipIsOpen.selector);
        _as(FOUNDER);
        registry.approve(_list(alice.account));
        vm.expectRevert(IClientRegistry.MembershipIsOpen.selector);
        _as(address(0)); // as the admin is
        registry.revoke(alice.account);
    }

    function test_NobodyButTheAdmin_Can_ApproveOrRevoke() public {
        _deploy(Membership.Approved);
        address[3] memory others = [STRANGER, FOUNDER, COORDINATOR];
        for (uint256 i = 0; i < 3; ++i) {
            vm.expectRevert(abi.encodeWithSelector(IClientRegistry.NotAdmin.selector, others[i]));
            _as(others[i]);
            registry.approve(_list(STRANGER));
            vm.expectRevert(abi.encodeWithSelector(IClientRegistry.NotAdmin.selector, others[i]));
            _as(others[i]);
            registry.revoke(STRANGER);
        }
    }

    /// @dev So strangers have no index: they are in no list and in no count.
    function test_WhoIsNotApproved_Cannot_Register() public {
        _deploy(Membership.Approved);
        _refusesRegistration(bob);
        _approve(alice.account);
        _register(alice);
        _refusesRegistration(bob);
        _approve(bob.account);
        _revoke(bob.account);
        _refusesRegistration(bob);
        _equal(registry.clientCount(), 1, "clients");
    }

    function test_TheAdmin_MayApproveMoreAfterRoundsOpened() public {
        _deploy(Membership.Approved);
        _join(2);
        _open();
        Member memory late = _newMember(9);
        _approve(late.account);
        _equal(_register(late), 3, "index");
        _equal(registry.clientOf(late.account).activeFrom, vm.getBlockNumber() + DELAY, "activeFrom");
    }

    function test_Approval_PrecedesRegistrationAndCanBeRevoked() public {
        _deploy(Membership.Approved);
        _approve(alice.account);
        _register(alice);
        require(registry.clientOf(alice.account).approved, "approved before");
        vm.expectEmit(address(registry));
        emit IClientRegistry.Revoked(alice.account);
        _revoke(alice.account);
        require(!registry.clientOf(alice.account).approved, "revoked");
        _equal(registry.revokedAt(alice.account), vm.getBlockNumber(), "block of the revocation");
        _equal(registry.revokedAt(bob.account), 0, "block of no revocation");
        _equal(registry.clientOf(alice.account).client, 1, "index stays");
        vm.roll(vm.getBlockNumber() + 1);
        _revoke(alice.account);
        _equal(registry.revokedAt(alice.account), vm.getBlockNumber() - 1, "a second revocation changes nothing");
    }

    // --- coming back ---

    function test_Resuming_DelaysActivity_AndIsOnRecord() public {
        _register(alice);
        vm.roll(500);
        vm.expectEmit(address(registry));
        emit IClientRegistry.Resumed(alice.account, 1, uint64(500 + DELAY));
        _as(alice.account);
        registry.resume();
        ClientView memory client = registry.clientOf(alice.account);
        _equal(client.activeFrom, 500 + DELAY, "activeFrom");
        _equal(client.keyTag, uint160(uint256(keccak256(abi.encode(alice.vrfX, alice.vrfY)))), "keyTag");
        require(client.approved && !client.left && client.client == 1, "nothing else changed");
        _equal(registry.changedAt(), 500, "changed at");
    }

    function test_AStranger_Cannot_Resume() public {
        vm.expectRevert(abi.encodeWithSelector(IClientRegistry.NotRegistered.selector, STRANGER));
        _as(STRANGER);
        registry.resume();
    }

    function test_Resuming_Cannot_UndoALeave() public {
        _register(alice);
        _as(alice.account);
        registry.withdraw(0, DIGEST);
        _as(alice.account);
        registry.resume();
        require(registry.clientOf(alice.account).left, "it came back");
        _equal(registry.memberCount(), 0, "members");
    }

    // --- who is a member, and since when that changed ---

    function test_ChangedAt_IsTheBlockOfTheLatestChangeOfAMember() public {
        _deploy(Membership.Approved);
        vm.roll(200);
        _approve(alice.account);
        _equal(registry.changedAt(), 0, "an approval of nobody registered");
        _register(alice);
        _equal(registry.changedAt(), 200, "a registration");
        vm.roll(201);
        _as(alice.account);
        registry.register(alice.vrfX, alice.vrfY, MAILBOX, "");
        _as(alice.account);
        registry.rotateMailboxKey(DIGEST);
        _as(alice.account);
        registry.withdraw(3, DIGEST);
        _approve(alice.account);
        _equal(registry.changedAt(), 200, "nothing that changes a member");
        bytes memory message = _possessionOf(bob.secret, alice.account);
        _as(alice.account);
        registry.rotateVrfKey(bob.vrfX, bob.vrfY, message);
        _equal(registry.changedAt(), 201, "a rotation");
        vm.roll(202);
        _as(alice.account);
        registry.resume();
        _equal(registry.changedAt(), 202, "a return");
        vm.roll(203);
        _revoke(alice.account);
        _equal(registry.changedAt(), 203, "a revocation");
        vm.roll(204);
        _approve(alice.account);
        _equal(registry.changedAt(), 204, "an approval");
        vm.roll(205);
        _as(alice.account);
        registry.withdraw(0, DIGEST);
        _equal(registry.changedAt(), 205, "a leave");
        vm.roll(206);
        _as(alice.account);
        registry.withdraw(0, DIGEST);
        _as(alice.account);
        registry.resume();
        _revoke(alice.account);
        _approve(alice.account);
        _equal(registry.changedAt(), 205, "what is no member any more");
    }

    /// @dev Any sequence of what the admin and three accounts can do.
    function testFuzz_MemberCount_IsThatOfTheRegisteredApprovedWhoDidNotLeave(uint256 history) public {
        _deploy(Membership.Approved);
        for (uint256 i = 0; i < 3; ++i) {
            members.push(_newMember(i + 1));
        }
        for (uint256 step = 0; step < 40; ++step) {
            uint256 who = history % 3;
            uint256 what = (history >> 8) % 6;
            history = uint256(keccak256(abi.encode(history)));
            address account = members[who].account;
            ClientView memory before = registry.clientOf(account);
            uint64 changedAt = registry.changedAt();
            vm.roll(vm.getBlockNumber() + 1);
            if (what == 0) {
                _approve(account);
            } else if (what == 1) {
                _revoke(account);
            } else if (before.client == 0) {
                if (before.approved) _register(members[who]);
                else _refusesRegistration(members[who]);
            } else {
                _as(account);
                if (what == 2) registry.withdraw(0, 0);
                else registry.resume();
            }
            ClientView memory after_ = registry.clientOf(account);
            uint256 count = 0;
            for (uint256 i = 0; i < 3; ++i) {
                if (_isMember(registry.clientOf(members[i].account))) ++count;
            }
            _equal(registry.memberCount(), count, "members");
            bool changes = _isMember(before) != _isMember(after_)
                || (_isMember(before) && before.activeFrom != after_.activeFrom);
            _equal(registry.changedAt(), changes ? vm.getBlockNumber() : changedAt, "changed at");
        }
    }

    function _isMember(ClientView memory client) private pure returns (bool) {
        return client.client != 0 && client.approved && !client.left;
    }

    // --- proofs for the ledger ---

    function test_VerifyVrf_GivesTheOutputAndTheChallenge() public {
        (bytes memory message, bytes32 expected) = Prover.prove(alice.secret, DIGEST);
        (bytes32 beta, uint128 challenge) = registry.verifyVrf(alice.vrfX, alice.vrfY, DIGEST, message);
        _equal(beta, expected, "output");
        _equal(challenge, this.challengeOf(alice.vrfX, alice.vrfY, DIGEST, message), "challenge");
    }

    function test_VerifyVrf_RefusesAProofOfAnotherKeyOrInput() public {
        (bytes memory message,) = Prover.prove(alice.secret, DIGEST);
        vm.expectRevert();
        registry.verifyVrf(bob.vrfX, bob.vrfY, DIGEST, message);
        vm.expectRevert();
        registry.verifyVrf(alice.vrfX, alice.vrfY, MODEL, message);
        vm.expectRevert(abi.encodeWithSelector(ECVRF.MessageLengthInvalid.selector, 0));
        registry.verifyVrf(alice.vrfX, alice.vrfY, DIGEST, "");
    }

    // --- deployment ---

    function test_Deployment_RefusesParametersThatCannotWork() public {
        _refusesDeployment(Membership.Open, address(0), address(0), 1, abi.encodeWithSelector(
            IClientRegistry.ZeroAddress.selector, bytes32("ledger")
        ));
        _refusesDeployment(Membership.Open, address(0), address(1), 0, abi.encodeWithSelector(
            IClientRegistry.ActivationDelayOutOfRange.selector, 0
        ));
        _refusesDeployment(Membership.Open, address(0), address(1), 1 << 32, abi.encodeWithSelector(
            IClientRegistry.ActivationDelayOutOfRange.selector, 1 << 32
        ));
    }

    function test_ThereIsAnAdmin_ExactlyWhereMembershipIsApproved() public {
        Membership[3] memory all = [Membership.Named, Membership.Approved, Membership.Open];
        for (uint256 i = 0; i < 3; ++i) {
            address wrong = all[i] == Membership.Approved ? address(0) : ADMIN;
            _refusesDeployment(
                all[i], wrong, address(1), 1, abi.encodeWithSelector(IClientRegistry.WrongAdmin.selector, all[i], wrong)
            );
        }
    }

    function test_OpenMembership_NamesNobody() public {
        vm.expectRevert(IClientRegistry.MembershipIsOpen.selector);
        _deployRegistry(Membership.Open, address(0), address(1), DELAY, _list(alice.account));
        _deployRegistry(Membership.Approved, ADMIN, address(1), DELAY, _list(alice.account));
    }

    function testFuzz_ThePackedRecord_SaysWhatTheViewSays(uint16 blocks, bool leaves, bool revoked) public {
        _deploy(Membership.Approved);
        _approve(alice.account);
        _register(alice);
        vm.roll(vm.getBlockNumber() + blocks);
        _as(alice.account);
        registry.resume();
        if (revoked) _revoke(alice.account);
        if (leaves) {
            _as(alice.account);
            registry.withdraw(0, 0);
        }
        ClientView memory client = registry.clientOf(alice.account);
        require(client.left == leaves && client.approved != revoked && client.client == 1, "view");
        _equal(client.activeFrom, vm.getBlockNumber() + DELAY, "activeFrom");
        uint256 word = uint256(client.keyTag) | (uint256(client.client) << 160) | (uint256(client.activeFrom) << 192);
        if (client.approved) word |= uint256(1) << 248;
        if (client.left) word |= uint256(1) << 249;
        (, bytes memory answer) =
            address(registry).staticcall(abi.encodeCall(IClientRegistry.packedClientOf, (alice.account)));
        _equal(bytes32(answer), bytes32(word), "packed record");
    }

    function _list(address account) private pure returns (address[] memory accounts) {
        accounts = new address[](1);
        accounts[0] = account;
    }

    function _refusesRegistration(Member memory member) private {
        vm.expectRevert(abi.encodeWithSelector(IClientRegistry.NotApproved.selector, member.account));
        _as(member.account);
        registry.register(member.vrfX, member.vrfY, MAILBOX, "");
    }

    function _refusesDeployment(
        Membership membership,
        address admin,
        address ledgerAddress,
        uint64 delay,
        bytes memory refusal
    ) private {
        vm.expectRevert(refusal);
        _deployRegistry(membership, admin, ledgerAddress, delay, _nobody());
    }

    function _possessionOf(uint256 secret, address account) private returns (bytes memory message) {
        (message,) = Prover.prove(secret, _registerAlpha(address(registry), account));
    }

    /// @dev The 81-byte proof of a message: the challenge is what the prover solved s for, so read it off by the library.
    function _rebuilt(Member memory member, bytes memory message) private view returns (bytes memory) {
        return this.proofOf(member.vrfX, member.vrfY, _registerAlpha(address(registry), alice.account), message);
    }

    function challengeOf(uint256 x, uint256 y, bytes32 alpha, bytes calldata message)
        external
        view
        returns (uint128 challenge)
    {
        (, challenge) = ECVRF.verify(x, y, alpha, message);
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
