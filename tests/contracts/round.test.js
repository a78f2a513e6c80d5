// A whole round of the shipped artifacts on Hardhat's network, through nothing but JSON-RPC: another EVM than forge's.
"use strict";

const assert = require("node:assert/strict");
const { Interface, defaultAbiCoder } = require("@ethersproject/abi");
const { keccak256 } = require("@ethersproject/keccak256");
const { getContractAddress } = require("@ethersproject/address");
const { network } = require("hardhat");
const { prove, publicKey } = require("./prover.js");

const EVERYONE = 1_000_000;
// Of the enums in the interfaces.
const NAMED = 0;
const CLOSED = 9;
const ZERO = "0x" + "0".repeat(64);
const NOBODY = "0x" + "0".repeat(40);
const digest = (text) => keccak256(Buffer.from(text));
const rpc = (method, ...params) => network.provider.request({ method, params });
// The order comes from the RANDAO mix in a real header: forge's tests make their headers themselves.
const SETTINGS = {
  ...{ seedDelay: 2, drawWindow: 10, orderDelay: 2, sealWindow: 5, shareWindow: 6, commitWindow: 7 },
  ...{ vouchWindow: 0, affirmWindow: 0, recoverWindow: 12 },
  ...{ coordinatorGrace: 3, quorum: 2, releases: 2, stages: 0, judges: 2, maxClients: 100, absenceLimit: 2 },
  ...{ maxSamples: 1000, randao: true, rounds: 2, repeats: 1 },
};
const TERMS = {
  config: digest("config"),
  model: digest("model 0"),
  rates: [{ fromRound: 1, perMillion: EVERYONE }],
};
const HEADER_FIELDS = [
  ...["parentHash", "sha3Uncles", "miner", "stateRoot", "transactionsRoot", "receiptsRoot", "logsBloom", "difficulty"],
  ...["number", "gasLimit", "gasUsed", "timestamp", "extraData", "mixHash", "nonce", "baseFeePerGas"],
  ...["withdrawalsRoot", "blobGasUsed", "excessBlobGas", "parentBeaconBlockRoot", "requestsHash"],
];
const NUMBERS = new Set(
  ["difficulty", "number", "gasLimit", "gasUsed", "timestamp", "baseFeePerGas", "blobGasUsed", "excessBlobGas"],
);

/** A deployed contract: `send` a transaction and get its events by name, or `read` a view. */
class Contract {
  constructor(address, abi) {
    this.address = address;
    this.abi = new Interface(abi);
  }

  async send(from, name, values) {
    const transaction = { from, to: this.address, data: this.abi.encodeFunctionData(name, values) };
    const receipt = await rpc("eth_getTransactionReceipt", await rpc("eth_sendTransaction", transaction));
    assert.equal(receipt.status, "0x1");
    const own = receipt.logs.filter((log) => log.address.toLowerCase() === this.address.toLowerCase());
    return Object.fromEntries(own.map((log) => this.abi.parseLog(log)).map((log) => [log.name, log.args]));
  }

  async read(name, values) {
    const data = this.abi.encodeFunctionData(name, values);
    const answer = await rpc("eth_call", { to: this.address, data }, "latest");
    return this.abi.decodeFunctionResult(name, answer)[0];
  }
}

async function deploy(from, name, values) {
  const artifact = require(`../../chain/artifacts/${name}.json`);
  const data = artifact.bytecode + new Interface(artifact.abi).encodeDeploy(values).slice(2);
  const hash = await rpc("eth_sendTransaction", { from, data });
  const receipt = await rpc("eth_getTransactionReceipt", hash);
  return new Contract(receipt.contractAddress, artifact.abi);
}

/** The RLP of a string, or of a list's content (`offset` 0xc0). */
function rlp(content, offset = 0x80) {
  if (offset === 0x80 && content.length === 1 && content[0] < 0x80) return content;
  if (content.length < 56) return Buffer.concat([Buffer.from([offset + content.length]), content]);
  const length = Buffer.from(bare(content.length.toString(16)), "hex");
  return Buffer.concat([Buffer.from([offset + 55 + length.length]), length, content]);
}

/** Hexadecimal digits, an even number of them, without 0x. */
function bare(hex) {
  const digits = hex.replace(/^0x/, "");
  return digits.length % 2 ? "0" + digits : digits;
}

/** The header of a block as it is hashed, and its RANDAO mix. */
async function headerOf(block) {
  const found = await rpc("eth_getBlockByNumber", "0x" + BigInt(block).toString(16), false);
  const fields = HEADER_FIELDS.filter((name) => found[name] !== undefined).map((name) => {
    const digits = NUMBERS.has(name) && BigInt(found[name]) === 0n ? "" : bare(found[name]);
    return rlp(Buffer.from(digits, "hex"));
  });
  const header = rlp(Buffer.concat(fields), 0xc0);
  assert.equal(keccak256(header), found.hash);
  return { header, mix: found.mixHash };
}

async function mineTo(block) {
  const current = BigInt(await rpc("eth_blockNumber"));
  if (BigInt(block) > current) await rpc("hardhat_mine", "0x" + (BigInt(block) - current).toString(16));
}

describe("A round", () => {
  let coordinator, accounts, registry, ledger, chainId;
  const secrets = [11n, 22n, 33n];

  before(async () => {
    [coordinator, ...accounts] = await rpc("eth_accounts");
    accounts = accounts.slice(0, 3);
    chainId = Number(await rpc("eth_chainId"));
    const nonce = Number(await rpc("eth_getTransactionCount", coordinator, "latest")) + 1;
    const ledgerAddress = getContractAddress({ from: coordinator, nonce });
    registry = await deploy(coordinator, "ClientRegistry", [NAMED, NOBODY, ledgerAddress, 1, accounts]);
    ledger = await deploy(coordinator, "TrainingLedger", [registry.address, coordinator, SETTINGS, TERMS]);
    assert.equal(ledger.address.toLowerCase(), ledgerAddress.toLowerCase());
  });

  it("registers the named with proofs of possession, and nobody else", async () => {
    for (const [i, account] of accounts.entries()) {
      const { x, y } = publicKey(secrets[i]);
      const parts = ["register", chainId, registry.address, account];
      const alpha = keccak256(defaultAbiCoder.encode(["string", "uint256", "address", "address"], parts));
      const { message } = prove(secrets[i], Buffer.from(alpha.slice(2), "hex"));
      const values = ["0x" + x.toString(16), "0x" + y.toString(16), digest("mailbox"), message];
      const { Registered } = await registry.send(account, "register", values);
      assert.equal(Registered.client, i + 1);
    }
    const { x, y } = publicKey(44n);
    const values = ["0x" + x.toString(16), "0x" + y.toString(16), digest("mailbox"), "0x"];
    await assert.rejects(registry.send(coordinator, "register", values));
    assert.equal(await registry.read("memberCount", []), 3);
  });

  it("draws, seals, shares, commits, releases and closes", async () => {
    await ledger.send(coordinator, "open", [digest("model 0"), []]);
    let view = await ledger.read("round", [1]);
    await mineTo(view.seedBlock);
    await ledger.send(coordinator, "fixSeed", [1]);
    const alpha = Buffer.from((await ledger.read("alphaOf", [1])).slice(2), "hex");

    const tickets = [];
    for (const [i, account] of accounts.entries()) {
      const { x, y } = publicKey(secrets[i]);
      const { message, beta } = prove(secrets[i], alpha);
      const keys = ["0x" + x.toString(16), "0x" + y.toString(16), digest("mask"), digest("seal")];
      const { Drawn } = await ledger.send(account, "draw", [1, ...keys, 10, message]);
      assert.equal((Drawn.proof.length - 2) / 2, 81);
      tickets.push(beta.subarray(0, 12).toString("hex") + (i + 1).toString(16).padStart(8, "0"));
    }

    view = await ledger.read("round", [1]);
    await mineTo(view.orderBlock);
    const { header, mix } = await headerOf(view.orderBlock);
    const parts = ["order", chainId, ledger.address, 1, mix];
    const seed = keccak256(defaultAbiCoder.encode(["string", "uint256", "address", "uint64", "bytes32"], parts));
    const keys = tickets.map((ticket) => keccak256(seed + ticket));
    const order = [...tickets.keys()].sort((a, b) => (keys[a] < keys[b] ? -1 : 1));
    const permutation = order.map((index) => index.toString(16).padStart(4, "0")).join("");
    const sealing = [1, "0x" + tickets.join(""), "0x" + permutation, header];
    const { Sealed } = await ledger.send(coordinator, "seal", sealing);
    assert.equal(Sealed.drawn, 3);
    assert.equal(Sealed.orderSeed, seed);

    for (const account of accounts) await ledger.send(account, "share", [1, digest("shares")]);
    view = await ledger.read("round", [1]);
    assert.equal(BigInt(view.shareEnd), BigInt(await rpc("eth_blockNumber")));
    for (const account of accounts.slice(0, 2)) {
      await ledger.send(account, "commit", [1, digest("update"), digest("seed")]);
    }
    await mineTo(view.commitEnd);
    const closing = [1, digest("model 1"), digest("metrics")];
    await ledger.send(accounts[0], "release", [1, ZERO, digest("released"), 0]);
    await assert.rejects(ledger.send(coordinator, "close", closing));
    await ledger.send(accounts[2], "release", [1, ZERO, digest("released"), 0]);
    await ledger.send(coordinator, "close", closing);
    assert.equal(await ledger.read("currentModel", []), digest("model 1"));
    await ledger.send(accounts[1], "release", [1, ZERO, digest("released"), 0]);
    assert.equal((await ledger.read("round", [1])).released, 3);
  });

  it("refuses a proof of the first round in the second", async () => {
    const alpha = Buffer.from((await ledger.read("alphaOf", [1])).slice(2), "hex");
    const { x, y } = publicKey(secrets[0]);
    const { message } = prove(secrets[0], alpha);
    await ledger.send(coordinator, "open", [digest("model 1"), []]);
    await mineTo((await ledger.read("round", [2])).seedBlock);
    const keys = ["0x" + x.toString(16), "0x" + y.toString(16), digest("mask"), digest("seal")];
    await assert.rejects(ledger.send(accounts[0], "draw", [2, ...keys, 10, message]));
    assert.equal((await ledger.read("round", [2])).drawn, 0);
  });

  it("ends with a closing that both clients replace", async () => {
    const right = [1, CLOSED, digest("the right model"), digest("the right metrics")];
    const { Judged } = await ledger.send(accounts[0], "judge", right);
    assert.equal(Judged.client, 1);
    await assert.rejects(ledger.send(accounts[2], "judge", right)); // did not commit
    await assert.rejects(ledger.send(accounts[0], "judge", [1, CLOSED, ZERO, ZERO]));
    const { Replaced, Voided } = await ledger.send(accounts[1], "judge", right);
    assert.equal(Replaced.modelDigest, digest("the right model"));
    assert.equal(Number(Voided.round), 2);
    assert.equal(await ledger.read("currentModel", []), digest("the right model"));
    assert.equal(await ledger.read("isStruck", [coordinator]), true);
    await assert.rejects(ledger.send(coordinator, "open", [digest("the right model"), []]));
    await ledger.send(accounts[2], "open", [digest("the right model"), []]);
    assert.equal(Number(await ledger.read("currentRound", [])), 3);
  });
});
