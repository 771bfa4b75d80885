// Airdrop, compress, transfer, queries, validity proof, decompress: what an application does, with the published client.
// Argument: the report of `localnet up --json`. Prints one line of JSON.
const { compress, createRpc, decompress, selectStateTreeInfo, transfer } = require("@lightprotocol/stateless.js");
const { Keypair } = require("@solana/web3.js");

async function main() {
  const report = JSON.parse(process.argv[2]);
  const rpc = createRpc(report.rpcUrl, report.indexerUrl, report.proverUrl);
  const payer = Keypair.generate();
  const other = Keypair.generate();
  const airdrop = await rpc.requestAirdrop(payer.publicKey, 10e9);
  await rpc.confirmTransaction(airdrop, "confirmed");
  const trees = await rpc.getStateTreeInfos();
  await compress(rpc, payer, 5e8, payer.publicKey, selectStateTreeInfo(trees));
  await transfer(rpc, payer, 1e8, payer, other.publicKey);
  const { items } = await rpc.getCompressedAccountsByOwner(payer.publicKey);
  const inputs = items.map((item) => ({ hash: item.hash, tree: item.treeInfo.tree, queue: item.treeInfo.queue }));
  const proof = await rpc.getValidityProofV0(inputs, []);
  await decompress(rpc, payer, 2e8, payer.publicKey);
  const balance = async (key) => Number(await rpc.getCompressedBalanceByOwner(key));
  return {
    trees: trees.length,
    accounts: items.map((item) => Number(item.lamports)),
    proofNeeded: proof.compressedProof !== null,
    compressed: [await balance(payer.publicKey), await balance(other.publicKey)],
    signatures: (await rpc.getCompressionSignaturesForOwner(payer.publicKey)).items.length,
    health: await rpc.getIndexerHealth(),
  };
}

main().then(
  (result) => {
    console.log(JSON.stringify(result));
    process.exit(0);
  },
  (error) => {
    console.error(error, error.transactionLogs);
    process.exit(1);
  },
);
