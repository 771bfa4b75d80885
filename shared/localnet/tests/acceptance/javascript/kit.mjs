// What an application does with the current published client, in its own words. Prints one JSON object of what it saw.
import {
  address,
  airdropFactory,
  appendTransactionMessageInstructions,
  createSolanaRpc,
  createSolanaRpcSubscriptions,
  createTransactionMessage,
  generateKeyPairSigner,
  getBase64EncodedWireTransaction,
  getSignatureFromTransaction,
  lamports,
  pipe,
  sendAndConfirmTransactionFactory,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  signTransactionMessageWithSigners,
} from "@solana/kit";

const [rpcUrl, wsUrl] = process.argv.slice(2);
const rpc = createSolanaRpc(rpcUrl);
const rpcSubscriptions = createSolanaRpcSubscriptions(wsUrl);
const SYSTEM = address("11111111111111111111111111111111");
const [payer, friend] = [await generateKeyPairSigner(), await generateKeyPairSigner()];
const seen = { events: [] };

const stop = new AbortController();
const events = Promise.all(
  [
    ["account", rpcSubscriptions.accountNotifications(friend.address, { commitment: "confirmed", encoding: "base64" })],
    ["program", rpcSubscriptions.programNotifications(SYSTEM, { commitment: "confirmed", encoding: "base64" })],
    ["logs", rpcSubscriptions.logsNotifications({ mentions: [friend.address] }, { commitment: "confirmed" })],
    ["slot", rpcSubscriptions.slotNotifications()],
    ["root", rpcSubscriptions.rootNotifications()],
  ].map(async ([name, pending]) => {
    for await (const _event of await pending.subscribe({ abortSignal: stop.signal })) {
      seen.events.push(name);
      break;
    }
  }),
);

const airdrop = airdropFactory({ rpc, rpcSubscriptions });
await airdrop({ commitment: "confirmed", lamports: lamports(10_000_000_000n), recipientAddress: payer.address });

// A transfer of lamports: four bytes that select the instruction, then the amount.
const data = new Uint8Array(12);
new DataView(data.buffer).setUint32(0, 2, true);
new DataView(data.buffer).setBigUint64(4, 1_500_000_000n, true);
const instruction = {
  programAddress: SYSTEM,
  accounts: [
    { address: payer.address, role: 3, signer: payer },
    { address: friend.address, role: 1 },
  ],
  data,
};
const { value: blockhash } = await rpc.getLatestBlockhash().send();
const message = pipe(
  createTransactionMessage({ version: 0 }),
  (tx) => setTransactionMessageFeePayerSigner(payer, tx),
  (tx) => setTransactionMessageLifetimeUsingBlockhash(blockhash, tx),
  (tx) => appendTransactionMessageInstructions([instruction], tx),
);
const transaction = await signTransactionMessageWithSigners(message);
const wire = getBase64EncodedWireTransaction(transaction);
const simulated = (await rpc.simulateTransaction(wire, { encoding: "base64" }).send()).value;
seen.simulated = [simulated.err, Number(simulated.unitsConsumed) > 0];
await sendAndConfirmTransactionFactory({ rpc, rpcSubscriptions })(transaction, { commitment: "confirmed" });
seen.received = (await rpc.getBalance(friend.address).send()).value.toString();

const config = { commitment: "confirmed", encoding: "jsonParsed", maxSupportedTransactionVersion: 0 };
const found = await rpc.getTransaction(getSignatureFromTransaction(transaction), config).send();
seen.parsed = found.transaction.message.instructions[0].parsed.type;
const info = (await rpc.getAccountInfo(friend.address, { encoding: "base64" }).send()).value;
seen.space = info.space.toString();
seen.supply = (await rpc.getSupply().send()).value.total > 0n;
seen.schedule = Object.keys(await rpc.getLeaderSchedule().send()).length;
seen.production = Object.keys((await rpc.getBlockProduction().send()).value.byIdentity).length;
seen.certificate = await rpc.getAgGenesisCert().send();
await events;
stop.abort();
seen.events.sort();
console.log(JSON.stringify(seen));
process.exit(0);
