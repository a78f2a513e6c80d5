// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IClientRegistry, Membership} from "../../../contracts/interfaces/IClientRegistry.sol";
import {
    ITrainingLedger, Phase, Rate, Settings, SignedDraw, Terms
} from "../../../contracts/interfaces/ITrainingLedger.sol";
import {Prover} from "./Prover.sol";
import {vm} from "./Vm.sol";

/// @notice A client with the secrets that no client would put into a contract. `secret` is its VRF key, `signingKey`
/// its account's.
struct Member {
    address account;
    uint256 signingKey;
    uint256 secret;
    uint256 vrfX;
    uint256 vrfY;
}

/// @notice A deployed federation, and steps that tests take it through. Blocks are set, not mined.
/// NOTE: the optimiser takes block.number and block.chainid for constants; a test that changes one reads it by `vm`.
abstract contract Federation {
    bytes32 internal constant MODEL = keccak256("model 0");
    bytes32 internal constant CONFIG = keccak256("config");
    bytes32 internal constant MASK_KEY = keccak256("mask key");
    bytes32 internal constant SEAL_KEY = keccak256("seal key");
    bytes32 internal constant MAILBOX = keccak256("mailbox");
    bytes32 internal constant METRICS = keccak256("metrics");
    bytes32 internal constant DIGEST = keccak256("digest");
    uint32 internal constant EVERYONE = 1_000_000;
    /// @dev EIP-2935's contract, which is not there unless a test mocks it.
    address internal constant HISTORY = 0x0000F90827F1C53a10cb7A02335B175320002935;
    uint64 internal constant DELAY = 2;
    address internal constant COORDINATOR = address(0xC0);
    address internal constant ADMIN = address(0xAD);
    /// @dev Who deploys. Not a test, since a contract may not call.
    address internal constant FOUNDER = address(0xF0);
    address internal constant STRANGER = address(0x51);

    IClientRegistry internal registry;
    ITrainingLedger internal ledger;
    Member[] internal members;
    /// @dev Tickets of the round in the order of the draws.
    uint128[] internal tickets;

    function _settings() internal pure virtual returns (Settings memory) {
        return Settings({
            seedDelay: 2,
            drawWindow: 10,
            orderDelay: 2,
            sealWindow: 5,
            shareWindow: 6,
            commitWindow: 7,
            vouchWindow: 0,
            affirmWindow: 0,
            recoverWindow: 12,
            coordinatorGrace: 3,
            quorum: 2,
            releases: 2,
            stages: 0,
            judges: 2,
            maxClients: 4,
            absenceLimit: 2,
            maxSamples: 1000,
            randao: false,
            rounds: 1000,
            repeats: 1000
        });
    }

    function _terms() internal pure virtual returns (Terms memory) {
        return _termsAt(EVERYONE);
    }

    /// @dev One rate for all rounds.
    function _termsAt(uint32 rate) internal pure returns (Terms memory) {
        Rate[] memory rates = new Rate[](1);
        rates[0] = Rate(1, rate);
        return Terms(CONFIG, MODEL, rates);
    }

    function _deploy(Membership membership) internal {
        vm.roll(100);
        _redeploy(membership, _settings(), _terms());
    }

    /// @dev Another federation, with nobody in it, in place of that of {_deploy}.
    function _redeploy(Membership membership, Settings memory settings_, Terms memory terms_) internal {
        delete members;
        (registry, ledger) = _deployPair(membership, _nobody(), settings_, terms_);
    }

    /// @dev A federation of `n` named members, who have yet to register.
    function _deployNamed(uint256 n) internal {
        vm.roll(100);
        delete members;
        address[] memory named = new address[](n);
        for (uint256 i = 0; i < n; ++i) {
            members.push(_newMember(i + 1));
            named[i] = members[i].account;
        }
        (registry, ledger) = _deployPair(Membership.Named, named, _settings(), _terms());
    }

    function _deployPair(
        Membership membership,
        address[] memory named,
        Settings memory settings_,
        Terms memory terms_
    ) internal returns (IClientRegistry registry_, ITrainingLedger ledger_) {
        address admin = membership == Membership.Approved ? ADMIN : address(0);
        registry_ = _deployRegistry(membership, admin, _addressOfCreation(1), DELAY, named);
        ledger_ = _deployLedger(registry_, settings_, terms_);
    }

    function _deployRegistry(
        Membership membership,
        address admin,
        address ledgerAddress,
        uint64 delay,
        address[] memory named
    ) internal returns (IClientRegistry) {
        bytes memory arguments = abi.encode(membership, admin, ledgerAddress, delay, named);
        return IClientRegistry(_create("ClientRegistry.sol:ClientRegistry", arguments));
    }

    function _deployLedger(IClientRegistry registry_, Settings memory settings_, Terms memory terms_)
        internal
        returns (ITrainingLedger)
    {
        bytes memory arguments = abi.encode(registry_, COORDINATOR, settings_, terms_);
        return ITrainingLedger(_create("TrainingLedger.sol:TrainingLedger", arguments));
    }

    /// @dev The address of the next contract, or of that `after_` contracts later.
    function _addressOfCreation(uint256 after_) internal view returns (address) {
        return vm.computeCreateAddress(FOUNDER, vm.getNonce(FOUNDER) + after_);
    }

    /// @dev Instead of `new`, which would compile the contract into every test anew.
    function _create(string memory artifact, bytes memory arguments) internal returns (address created) {
        bytes memory code = abi.encodePacked(vm.getCode(artifact), arguments);
        vm.prank(FOUNDER, FOUNDER);
        assembly ("memory-safe") {
            created := create(0, add(code, 32), mload(code))
            if iszero(created) {
                returndatacopy(code, 0, returndatasize())
                revert(code, returndatasize())
            }
        }
    }

    // --- members ---

    /// @dev The next call is a transaction of `account`.
    function _as(address account) internal {
        vm.prank(account, account);
    }

    function _newMember(uint256 number) internal returns (Member memory member) {
        member.signingKey = uint256(keccak256(abi.encode("account", number)));
        member.account = vm.addr(member.signingKey);
        member.secret = uint256(keccak256(abi.encode("vrf", number)));
        (member.vrfX, member.vrfY) = Prover.publicKey(member.secret);
    }

    function _registerAlpha(address registry_, address account) internal view returns (bytes32) {
        return keccak256(abi.encode("register", block.chainid, registry_, account));
    }

    function _possession(Member memory member) internal returns (bytes memory message) {
        (message,) = Prover.prove(member.secret, _registerAlpha(address(registry), member.account));
    }

    function _register(Member memory member) internal returns (uint32) {
        bytes memory message = _possession(member);
        _as(member.account);
        return registry.register(member.vrfX, member.vrfY, MAILBOX, message);
    }

    /// @dev Registers `n` more members, who may, and moves on to where they are active.
    function _join(uint256 n) internal {
        for (uint256 i = 0; i < n; ++i) {
            Member memory member = _newMember(members.length + 1);
            members.push(member);
            _approve(member.account);
            _register(member);
        }
        vm.roll(vm.getBlockNumber() + DELAY);
    }

    /// @dev Approves an account where that is needed; where members are named, only before the first round.
    function _approve(address account) internal {
        Membership membership = registry.membership();
        if (membership == Membership.Open) return;
        address[] memory accounts = new address[](1);
        accounts[0] = account;
        _as(membership == Membership.Named ? FOUNDER : ADMIN);
        registry.approve(accounts);
    }

    function _revoke(address account) internal {
        _as(ADMIN);
        registry.revoke(account);
    }

    /// @dev The accounts of the members of these bits, ascending.
    function _accounts(uint256 bits) internal view returns (address[] memory list) {
        list = new address[](members.length);
        uint256 count = 0;
        for (uint256 i = 0; i < members.length; ++i) {
            if ((bits >> i) & 1 == 0) continue;
            uint256 slot = count++;
            for (; slot > 0 && list[slot - 1] > members[i].account; --slot) {
                list[slot] = list[slot - 1];
            }
            list[slot] = members[i].account;
        }
        assembly ("memory-safe") {
            mstore(list, count)
        }
    }

    function _bits(uint256 word) internal pure returns (uint256 count) {
        for (; word != 0; word >>= 1) {
            count += word & 1;
        }
    }

    // --- rounds ---

    function _open() internal returns (uint64) {
        bytes32 model = ledger.currentModel();
        delete tickets;
        _as(COORDINATOR);
        return ledger.open(model, _nobody());
    }

    function _openBarring(address[] memory barred) internal returns (uint64) {
        bytes32 model = ledger.currentModel();
        delete tickets;
        _as(COORDINATOR);
        return ledger.open(model, barred);
    }

    /// @dev A list of nobody who is barred from a round.
    function _nobody() internal pure returns (address[] memory) {}

    /// @dev The last block of the draw window, beyond which the draws go on where the quorum is missed.
    function _windowEnd(uint64 round) internal view returns (uint64) {
        return ledger.round(round).openedAt + _settings().seedDelay + _settings().drawWindow;
    }

    /// @dev The first block of the draw window; the seed block's hash depends on the round alone.
    function _toDraw(uint64 round) internal {
        uint64 seedBlock = ledger.round(round).seedBlock;
        vm.roll(seedBlock + 1);
        vm.setBlockhash(seedBlock, keccak256(abi.encode("block", round)));
    }

    function _proof(Member memory member, uint64 round) internal returns (bytes memory message, bytes32 beta) {
        return Prover.prove(member.secret, ledger.alphaOf(round));
    }

    function _ticket(bytes32 beta, uint32 client) internal pure returns (uint128) {
        return (uint128(bytes16(beta)) >> 32 << 32) | client;
    }

    function _draw(uint256 i, uint64 round) internal {
        Member memory member = members[i];
        (bytes memory message, bytes32 beta) = _proof(member, round);
        _as(member.account);
        ledger.draw(round, member.vrfX, member.vrfY, MASK_KEY, SEAL_KEY, 10, message);
        tickets.push(_ticket(beta, registry.clientOf(member.account).client));
    }

    function _openAndDraw(uint256 n) internal returns (uint64 round) {
        round = _open();
        _toDraw(round);
        for (uint256 i = 0; i < n; ++i) {
            _draw(i, round);
        }
    }

    /// @dev The first block in which the order can be sealed; the hash of the order's block depends on the round alone.
    function _toSeal(uint64 round) internal {
        uint64 orderBlock = ledger.round(round).orderBlock;
        vm.roll(orderBlock + 1);
        vm.setBlockhash(orderBlock, _orderHash(round));
    }

    function _orderHash(uint64 round) internal pure returns (bytes32) {
        return keccak256(abi.encode("order block", round));
    }

    /// @dev What records of a round name as its sketch; zero, as updates are not bounded.
    function _sketchOf(uint64) internal view virtual returns (bytes32) {
        return 0;
    }

    /// @dev The hash of the block of the sketch, where updates are bounded.
    function _sketchHashOf(uint64 round) internal pure returns (bytes32) {
        return keccak256(abi.encode("sketch block", round));
    }

    /// @dev Where the order comes from the block's hash, as {_toSeal} sets it.
    function _orderSeed(uint64 round) internal view returns (bytes32) {
        return _orderSeedOf(round, _orderHash(round));
    }

    function _orderSeedOf(uint64 round, bytes32 randomness) internal view returns (bytes32) {
        return keccak256(abi.encode("order", block.chainid, address(ledger), round, randomness));
    }

    function _seal(uint64 round) internal {
        _toSeal(round);
        (bytes memory given, bytes memory permutation) = _order(tickets, _orderSeed(round));
        _as(STRANGER);
        ledger.seal(round, given, permutation, "");
    }

    function _sealed(uint256 n) internal returns (uint64 round) {
        round = _openAndDraw(n);
        _seal(round);
    }

    function _share(uint256 i, uint64 round) internal {
        _as(members[i].account);
        ledger.share(round, keccak256(abi.encode("shares", i)));
    }

    function _commit(uint256 i, uint64 round) internal {
        _as(members[i].account);
        ledger.commit(round, keccak256(abi.encode("update", i)), keccak256(abi.encode("seed", i)));
    }

    /// @dev A round in the recover phase in which the first `survivors` of `n` committed.
    function _committed(uint256 n, uint256 survivors) internal returns (uint64 round) {
        round = _sealed(n);
        for (uint256 i = 0; i < n; ++i) {
            _share(i, round);
        }
        vm.roll(ledger.round(round).shareEnd + 1);
        for (uint256 i = 0; i < survivors; ++i) {
            _commit(i, round);
        }
        vm.roll(ledger.round(round).commitEnd + 1);
    }

    function _release(uint256 i, uint64 round) internal {
        _as(members[i].account);
        ledger.release(round, _sketchOf(round), keccak256(abi.encode("released", i)), 0);
    }

    /// @dev A round in which as many clients as a closing needs have released shares.
    function _released(uint256 n, uint256 survivors) internal returns (uint64 round) {
        round = _committed(n, survivors);
        _release(0, round);
        _release(1, round);
    }

    function _modelOf(uint64 round) internal pure returns (bytes32) {
        return keccak256(abi.encode("model", round));
    }

    function _close(address closer, uint64 round) internal {
        _as(closer);
        ledger.close(round, _modelOf(round), METRICS);
    }

    function _closed(uint256 n, uint256 survivors) internal returns (uint64 round) {
        round = _released(n, survivors);
        _close(COORDINATOR, round);
    }

    /// @dev The first block in which another than the coordinator may close, by the grace and the lot, which goes up to
    /// `longest` blocks.
    function _closerFrom(uint64 round, address account, uint256 grace, uint256 longest)
        internal
        view
        returns (uint256)
    {
        uint256 lot = uint256(keccak256(abi.encode(ledger.round(round).orderRoot, account))) % (longest + 1);
        return ledger.round(round).affirmEnd + grace + lot + 1;
    }

    /// @dev Ends a round that drew fewer clients than the quorum.
    function _skip(uint64 round) internal {
        if (vm.getBlockNumber() <= _windowEnd(round)) vm.roll(_windowEnd(round) + 1);
        _as(COORDINATOR);
        ledger.skip(round);
    }

    /// @dev Ends a round, which drew a quorum, when it is overdue.
    function _fail(uint64 round) internal {
        vm.roll(ledger.round(round).recoverEnd + 1);
        _as(STRANGER);
        ledger.fail(round);
    }

    // --- judgements ---

    function _judge(uint256 i, uint64 round, bytes32 model, bytes32 metrics) internal {
        _as(members[i].account);
        ledger.judge(round, Phase.Closed, model, metrics);
    }

    /// @dev Judges that nothing may be summed.
    function _judgeNothing(uint256 i, uint64 round) internal {
        _as(members[i].account);
        ledger.judge(round, Phase.Recover, 0, 0);
    }

    // --- orders ---

    /// @dev Packed tickets as drawn, and the permutation that sorts them.
    function _order(uint128[] memory drawn, bytes32 orderSeed)
        internal
        pure
        returns (bytes memory packed, bytes memory permutation)
    {
        uint16[] memory indices = _sortedIndices(drawn, orderSeed);
        for (uint256 i = 0; i < drawn.length; ++i) {
            packed = abi.encodePacked(packed, drawn[i]);
            permutation = abi.encodePacked(permutation, indices[i]);
        }
    }

    /// @dev The tickets in their order.
    function _sorted(uint128[] memory drawn, bytes32 orderSeed) internal pure returns (uint128[] memory sorted) {
        uint16[] memory indices = _sortedIndices(drawn, orderSeed);
        sorted = new uint128[](drawn.length);
        for (uint256 i = 0; i < drawn.length; ++i) {
            sorted[i] = drawn[indices[i]];
        }
    }

    /// @dev Insertion sort by keccak256(order seed ‖ ticket).
    function _sortedIndices(uint128[] memory drawn, bytes32 orderSeed) internal pure returns (uint16[] memory indices) {
        bytes32[] memory keys = new bytes32[](drawn.length);
        indices = new uint16[](drawn.length);
        for (uint256 i = 0; i < drawn.length; ++i) {
            bytes32 key = keccak256(abi.encodePacked(orderSeed, drawn[i]));
            uint256 slot = i;
            while (slot > 0 && keys[slot - 1] > key) {
                (keys[slot], indices[slot]) = (keys[slot - 1], indices[slot - 1]);
                --slot;
            }
            (keys[slot], indices[slot]) = (key, uint16(i));
        }
    }

    /// @dev Merkle root level by level, unlike the contract's frontier.
    function _naiveRoot(uint128[] memory sorted) internal pure returns (bytes32) {
        bytes32[] memory level = new bytes32[](sorted.length);
        for (uint256 i = 0; i < sorted.length; ++i) {
            level[i] = keccak256(abi.encodePacked(uint8(0), uint32(i), sorted[i]));
        }
        for (uint256 n = level.length; n > 1; n = (n + 1) / 2) {
            for (uint256 i = 0; i < n / 2; ++i) {
                level[i] = keccak256(abi.encodePacked(uint8(1), level[2 * i], level[2 * i + 1]));
            }
            if (n % 2 == 1) level[n / 2] = level[n - 1];
        }
        return level[0];
    }

    // --- signatures ---

    function _signedDraw(uint256 i, uint64 round) internal returns (SignedDraw memory item) {
        Member memory member = members[i];
        (bytes memory message,) = _proof(member, round);
        item = SignedDraw(member.account, member.vrfX, member.vrfY, MASK_KEY, SEAL_KEY, 10, message, "");
        item.signature = _signature(member.signingKey, _drawDigest(address(ledger), round, item));
    }

    function _signature(uint256 key, bytes32 digest) internal pure returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, digest);
        return abi.encodePacked(r, s, v);
    }

    function _drawDigest(address target, uint64 round, SignedDraw memory item) internal view returns (bytes32) {
        bytes32 domain = keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256("fedgrove"),
                keccak256("1"),
                block.chainid,
                target
            )
        );
        bytes32 content = keccak256(
            abi.encode(
                keccak256(
                    "Draw(uint64 round,address account,uint256 vrfX,uint256 vrfY,bytes32 maskKey,bytes32 sealKey,uint32 samples,bytes message)"
                ),
                round,
                item.account,
                item.vrfX,
                item.vrfY,
                item.maskKey,
                item.sealKey,
                item.samples,
                keccak256(item.message)
            )
        );
        return keccak256(abi.encodePacked(hex"1901", domain, content));
    }

    // --- assertions ---

    function _wrongPhase(uint64 round, Phase current, Phase required) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(ITrainingLedger.WrongPhase.selector, round, current, required);
    }

    function _equal(uint256 given, uint256 expected, string memory what) internal pure {
        require(given == expected, string.concat(what, " differs"));
    }

    function _equal(bytes32 given, bytes32 expected, string memory what) internal pure {
        require(given == expected, string.concat(what, " differs"));
    }

    function _inPhase(uint64 round, Phase expected) internal view {
        require(ledger.phase(round) == expected, "the round is in another phase");
    }
}
