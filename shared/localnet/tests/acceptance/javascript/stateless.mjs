// What an application does with the published client, in its own words. Prints one JSON object of what it saw.
import { bn, compress, createRpc, decompress, transfer } from "@lightprotocol/stateless.js";
import { Keypair } from "@solana/web3.js";

const [rpcUrl, indexerUrl, proverUrl] = process.argv.slice(2);
const rpc = createRpc(rpcUrl, indexerUrl, proverUrl, { commitment: "confirmed" });
const SOL = 1_000_000_000;
const seen = {};

// One life of lamports in trees of one version (1 or 3 as accounts number it).
async function life(treeType) {
  const [payer, friend] = [Keypair.generate(), Keypair.generate()];
  await rpc.confirmTransaction(await rpc.requestAirdrop(payer.publicKey, 10 * SOL), "confirmed");
  const trees = await rpc.getStateTreeInfos();
  const tree = trees.find((info) => info.treeType === treeType);
  const signature = await compress(rpc, payer, SOL, payer.publicKey, tree);
  const [account] = (await rpc.getCompressedAccountsByOwner(payer.publicKey)).items;
  const hash = bn(account.hash);
  const proof = await rpc.getValidityProof([hash], []);
  const info = await rpc.getTransactionWithCompressionInfo(signature);
  const result = {
    trees: trees.length,
    compressed: (await rpc.getCompressedBalanceByOwner(payer.publicKey)).toString(),
    tree: account.treeInfo.tree.toBase58(),
    byHash: (await rpc.getCompressedAccount(undefined, hash)).lamports.toString(),
    several: (await rpc.getMultipleCompressedAccounts([hash])).length,
    path: (await rpc.getCompressedAccountProof(hash)).merkleProof.length,
    paths: (await rpc.getMultipleCompressedAccountProofs([hash])).length,
    proved: proof.compressedProof !== null,
    opened: info.compressionInfo.openedAccounts.length,
    created: (await rpc.getCompressionSignaturesForAccount(hash)).map((one) => one.signature)[0] === signature,
  };
  await transfer(rpc, payer, 0.3 * SOL, payer, friend.publicKey);
  result.received = (await rpc.getCompressedBalanceByOwner(friend.publicKey)).toString();
  await decompress(rpc, payer, 0.2 * SOL, payer.publicKey);
  result.left = (await rpc.getCompressedBalanceByOwner(payer.publicKey)).toString();
  result.transactions = (await rpc.getCompressionSignaturesForOwner(payer.publicKey)).items.length;
  result.tokens = (await rpc.getCompressedTokenAccountsByOwner(payer.publicKey, {})).items.length;
  return result;
}

seen.health = await rpc.getIndexerHealth();
seen.slot = await rpc.getIndexerSlot();
seen.v1 = await life(1);
seen.v2 = await life(3);
const address = new Uint8Array(32).fill(7);
address[0] = 0;
seen.newAddress = (await rpc.getMultipleNewAddressProofs([bn(address)]))[0].merkleProofHashedIndexedElementLeaf.length;
seen.latest = (await rpc.getLatestCompressionSignatures()).value.items.length;
seen.all = (await rpc.getLatestNonVotingSignatures()).value.items.length;
console.log(JSON.stringify(seen));
process.exit(0);
