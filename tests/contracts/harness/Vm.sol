// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

/// @notice The few cheatcodes of forge that the tests use.
interface Vm {
    struct Wallet {
        address addr;
        uint256 publicKeyX;
        uint256 publicKeyY;
        uint256 privateKey;
    }

    struct Log {
        bytes32[] topics;
        bytes data;
        address emitter;
    }

    struct Gas {
        uint64 gasLimit;
        uint64 gasTotalUsed;
        uint64 gasMemoryUsed;
        int64 gasRefunded;
        uint64 gasRemaining;
    }

    function addr(uint256 privateKey) external pure returns (address);
    function assume(bool condition) external pure;
    function chainId(uint256 id) external;
    function computeCreateAddress(address deployer, uint256 nonce) external pure returns (address);
    function createWallet(uint256 privateKey) external returns (Wallet memory);
    function etch(address account, bytes calldata code) external;
    function expectEmit(address emitter) external;
    function expectPartialRevert(bytes4 selector) external;
    function expectRevert(bytes calldata reason) external;
    function expectRevert() external;
    function expectRevert(bytes4 selector) external;
    function fee(uint256 baseFee) external;
    function getCode(string calldata artifact) external view returns (bytes memory creationCode);
    function getBlockNumber() external view returns (uint256);
    function getRecordedLogs() external returns (Log[] memory logs);
    function getNonce(address account) external view returns (uint64);
    function lastCallGas() external view returns (Gas memory);
    function mockCall(address target, bytes calldata data, bytes calldata answer) external;
    function mockCallRevert(address target, bytes calldata data, bytes calldata reason) external;
    function parseJsonUintArray(string calldata json, string calldata key) external pure returns (uint256[] memory);
    function parseJsonBytesArray(string calldata json, string calldata key) external pure returns (bytes[] memory);
    function parseJsonBytes32Array(string calldata json, string calldata key) external pure returns (bytes32[] memory);
    function prank(address sender, address origin) external;
    function readFile(string calldata path) external view returns (string memory);
    function recordLogs() external;
    function revertToState(uint256 id) external returns (bool);
    function roll(uint256 blockNumber) external;
    function setBlockhash(uint256 blockNumber, bytes32 blockHash) external;
    function sign(uint256 privateKey, bytes32 digest) external pure returns (uint8 v, bytes32 r, bytes32 s);
    function snapshotValue(string calldata group, string calldata name, uint256 value) external;
    function snapshotState() external returns (uint256 id);
    function txGasPrice(uint256 price) external;
}

Vm constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));
