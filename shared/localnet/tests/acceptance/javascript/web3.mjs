// What a wallet does with web3.js: a transaction with a durable nonce, a deployment-free lookup table, subscriptions.
import {
  AddressLookupTableProgram,
  Connection,
  Keypair,
  NONCE_ACCOUNT_LENGTH,
  NonceAccount,
  SystemProgram,
  Transaction,
  TransactionMessage,
  VersionedTransaction,
  sendAndConfirmTransaction,
} from "@solana/web3.js";

const [rpcUrl, wsEndpoint] = process.argv.slice(2);
const connection = new Connection(rpcUrl, { commitment: "confirmed", wsEndpoint });
const SOL = 1_000_000_000;
const [payer, friend, nonce] = [Keypair.generate(), Keypair.generate(), Keypair.generate()];
const seen = {};
await connection.confirmTransaction(await connection.requestAirdrop(payer.publicKey, 10 * SOL), "confirmed");

const updates = [];
const subscription = connection.onSlotUpdate((update) => updates.push(update.type));
const create = SystemProgram.createNonceAccount({
  fromPubkey: payer.publicKey,
  noncePubkey: nonce.publicKey,
  authorizedPubkey: payer.publicKey,
  lamports: await connection.getMinimumBalanceForRentExemption(NONCE_ACCOUNT_LENGTH),
});
await sendAndConfirmTransaction(connection, create, [payer, nonce]);
const stored = async () => NonceAccount.fromAccountData((await connection.getAccountInfo(nonce.publicKey)).data);
const before = await stored();
const advance = SystemProgram.nonceAdvance({ noncePubkey: nonce.publicKey, authorizedPubkey: payer.publicKey });
const pay = (lamports) => SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: friend.publicKey, lamports });
const durable = new Transaction({ feePayer: payer.publicKey, nonceInfo: { nonce: before.nonce, nonceInstruction: advance } });
durable.add(pay(SOL));
durable.sign(payer);
seen.nonceSent = typeof (await connection.sendRawTransaction(durable.serialize()));
seen.nonceAdvanced = (await stored()).nonce !== before.nonce;
seen.nonceOnce = await connection.sendRawTransaction(durable.serialize()).then(
  () => "accepted",
  () => "refused",
);

const recentSlot = await connection.getSlot("finalized");
const [createTable, table] = AddressLookupTableProgram.createLookupTable({
  authority: payer.publicKey,
  payer: payer.publicKey,
  recentSlot,
});
const extend = AddressLookupTableProgram.extendLookupTable({
  authority: payer.publicKey,
  payer: payer.publicKey,
  lookupTable: table,
  addresses: [friend.publicKey, SystemProgram.programId],
});
await sendAndConfirmTransaction(connection, new Transaction().add(createTable, extend), [payer]);
const parsed = (await connection.getParsedAccountInfo(table)).value.data.parsed;
seen.table = [parsed.type, parsed.info.addresses.length];
const lookup = (await connection.getAddressLookupTable(table)).value;
const { blockhash, lastValidBlockHeight } = await connection.getLatestBlockhash();
const message = new TransactionMessage({
  payerKey: payer.publicKey,
  recentBlockhash: blockhash,
  instructions: [pay(SOL)],
}).compileToV0Message([lookup]);
const versioned = new VersionedTransaction(message);
versioned.sign([payer]);
const signature = await connection.sendTransaction(versioned);
await connection.confirmTransaction({ signature, blockhash, lastValidBlockHeight }, "confirmed");
seen.received = await connection.getBalance(friend.publicKey);
const found = await connection.getParsedTransaction(signature, { maxSupportedTransactionVersion: 0 });
seen.sources = found.transaction.message.accountKeys.map((key) => key.source);
seen.rentEpoch = (await connection.getAccountInfo(friend.publicKey)).rentEpoch === 2 ** 64;
await connection.removeSlotUpdateListener(subscription);
seen.updates = updates.includes("frozen") && updates.includes("createdBank");
console.log(JSON.stringify(seen));
process.exit(0);
