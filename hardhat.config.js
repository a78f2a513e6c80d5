// Offline: the compiler is npm's solc, as for scripts/compile.py; the same settings, so the same bytecode.
"use strict";

const path = require("path");
const { subtask } = require("hardhat/config");
const { TASK_COMPILE_SOLIDITY_GET_SOLC_BUILD } = require("hardhat/builtin-tasks/task-names");
const solc = require("solc/package.json");

subtask(TASK_COMPILE_SOLIDITY_GET_SOLC_BUILD, async ({ solcVersion }) => {
  if (solcVersion !== solc.version) {
    throw new Error(`hardhat.config.js asks for solc ${solcVersion}, but npm installed ${solc.version}: run npm ci.`);
  }
  return {
    version: solc.version,
    longVersion: solc.version,
    compilerPath: path.join(__dirname, "node_modules", "solc", "soljson.js"),
    isSolcJs: true,
  };
});

module.exports = {
  solidity: {
    version: "0.8.37",
    settings: {
      viaIR: true,
      optimizer: { enabled: true, runs: 500 },
      evmVersion: "cancun",
      metadata: { appendCBOR: false, bytecodeHash: "none" },
    },
  },
  // A base fee of 7 wei stays as it is; a higher one falls with every empty block, and fees compare nothing.
  networks: { hardhat: { hardfork: "prague", mining: { auto: true }, initialBaseFeePerGas: 7 } },
  paths: { sources: "contracts", tests: "tests/contracts", cache: "cache/hardhat", artifacts: "artifacts" },
};
