// What an application does with the published token client, in its own words. Prints one JSON object of what it saw.
import {
  approve,
  compress,
  compressSplTokenAccount,
  createMint,
  decompress,
  mergeTokenAccounts,
  mintTo,
  revoke,
  transfer,
  transferDelegated,
} from "@lightprotocol/compressed-token";
import { createRpc } from "@lightprotocol/stateless.js";
import { getOrCreateAssociatedTokenAccount } from "@solana/spl-token";
import { Keypair } from "@solana/web3.js";

const [rpcUrl, indexerUrl, proverUrl] = process.argv.slice(2);
const rpc = createRpc(rpcUrl, indexerUrl, proverUrl, { commitment: "confirmed" });
const SOL = 1_000_000_000;
const [payer, friend, delegate] = [Keypair.generate(), Keypair.generate(), Keypair.generate()];
for (const key of [payer, friend, delegate]) {
  await rpc.confirmTransaction(await rpc.requestAirdrop(key.publicKey, 10 * SOL), "confirmed");
}

const accounts = async (owner, mint) => (await rpc.getCompressedTokenAccountsByOwner(owner.publicKey, { mint })).items;
const total = async (owner, mint) =>
  (await accounts(owner, mint)).reduce((sum, one) => sum + BigInt(one.parsed.amount.toString()), 0n).toString();
const held = async (account) => (await rpc.getTokenAccountBalance(account.address, "confirmed")).value;

const { mint } = await createMint(rpc, payer, payer.publicKey, 6);
await mintTo(rpc, payer, mint, payer.publicKey, payer, 1_000_000);
await mintTo(rpc, payer, mint, payer.publicKey, payer, 500_000);
const seen = { minted: await total(payer, mint), accounts: (await accounts(payer, mint)).length };

await mergeTokenAccounts(rpc, payer, mint, payer);
seen.merged = (await accounts(payer, mint)).length;

await transfer(rpc, payer, mint, 300_000, payer, friend.publicKey);
seen.transferred = await total(friend, mint);

await approve(rpc, payer, mint, 200_000, payer, delegate.publicKey);
const delegated = await rpc.getCompressedTokenAccountsByDelegate(delegate.publicKey, { mint });
seen.approved = delegated.items.map((one) => one.parsed.amount.toString());
await transferDelegated(rpc, payer, mint, 150_000, delegate, friend.publicKey);
seen.spentByDelegate = await total(friend, mint);
const rest = await rpc.getCompressedTokenAccountsByDelegate(delegate.publicKey, { mint });
await revoke(rpc, payer, rest.items, payer);
seen.revoked = (await rpc.getCompressedTokenAccountsByDelegate(delegate.publicKey, { mint })).items.length;

const account = await getOrCreateAssociatedTokenAccount(rpc, payer, mint, payer.publicKey);
await mergeTokenAccounts(rpc, payer, mint, payer);
await decompress(rpc, payer, mint, 400_000, payer, account.address);
seen.decompressed = (await held(account)).uiAmountString;
const unified = await rpc.getTokenAccountBalanceInterface(account.address, payer.publicKey, mint);
seen.unified = unified.amount.toString();
await compress(rpc, payer, mint, 100_000, payer, account.address, friend.publicKey);
seen.compressed = [(await held(account)).amount, await total(friend, mint)];
await compressSplTokenAccount(rpc, payer, mint, payer, account.address);
seen.emptied = [(await held(account)).amount, await total(payer, mint)];
seen.supply = (await rpc.getTokenSupply(mint)).value.amount;
seen.pool = (await rpc.getTokenLargestAccounts(mint)).value[0].amount;
const holders = await rpc.getCompressedMintTokenHolders(mint);
seen.holders = holders.value.items.map((one) => one.balance.toString());
const [latest] = await rpc.getSignaturesForAddress(account.address, { limit: 1 }, "confirmed");
const meta = (await rpc.getParsedTransaction(latest.signature, { maxSupportedTransactionVersion: 0 })).meta;
seen.balances = [meta.preTokenBalances, meta.postTokenBalances].map(
  (list) => list.find((one) => one.owner === payer.publicKey.toBase58()).uiTokenAmount.amount,
);
console.log(JSON.stringify(seen));
process.exit(0);
