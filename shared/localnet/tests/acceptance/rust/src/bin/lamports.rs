//! What an application does with the published crates: prints one JSON object of what it saw.

use std::time::Duration;

use light_client::{
    indexer::{AddressWithTree, CompressedAccount, Indexer, IndexerRpcConfig, RetryConfig},
    rpc::{LightClient, LightClientConfig, Rpc},
};
use light_hasher::{Hasher, Poseidon};
use light_prover_client::{
    proof_client::ProofClient,
    proof_types::inclusion::{
        v1::{BatchInclusionJsonStruct, InclusionProofInputs},
        v2::InclusionMerkleProofInputs,
    },
};
use light_sdk_types::lca::{
    compressed_account::{
        CompressedAccount as ProgramAccount, PackedCompressedAccountWithMerkleContext,
        PackedMerkleContext,
    },
    instruction_data::{
        compressed_proof::CompressedProof,
        data::{InstructionDataInvoke, OutputCompressedAccountWithPackedContext},
    },
};
use num_bigint::{BigInt, Sign};
use serde_json::{json, Value};
use solana_instruction::{AccountMeta, Instruction};
use solana_keypair::Keypair;
use solana_pubkey::{pubkey, Pubkey};
use solana_signer::Signer;

type Failure = Box<dyn std::error::Error>;

const SOL: u64 = 1_000_000_000;
const INVOKE: [u8; 8] = [26, 16, 169, 7, 21, 202, 242, 25];
const SYSTEM: Pubkey = pubkey!("11111111111111111111111111111111");
const LIGHT_SYSTEM: Pubkey = pubkey!("SySTEM1eSU2p4BGQfQpimFEWWSC1XDFeun3Nqzz3rT7");
const REGISTERED: Pubkey = pubkey!("35hkDgaAKwMCaxRz2ocSZ6NaUrtKkyNqU6c4RV3tYJRh");
const NOOP: Pubkey = pubkey!("noopb9bkMVfRPU8AsbpTUg8AQkHtKwMYZiFUjNRtMmV");
const CPI_AUTHORITY: Pubkey = pubkey!("HwXnGK3tPkkVY6P439H2p68AxpeuWXd5PcrAxFpbmfbA");
const COMPRESSION: Pubkey = pubkey!("compr6CUsB5m2jS4Y3831ztGSTnDpnKJTKS95d64XVq");
const POOL: Pubkey = pubkey!("CHK57ywWSDncAoRu1F8QgwYJeXuAJyyBYT4LixLXvMZ1");
const COMPUTE_BUDGET: Pubkey = pubkey!("ComputeBudget111111111111111111111111111111");
const ADDRESS_TREE: Pubkey = pubkey!("amt2kaJA14v3urZbZvnc5v2np8jqvc4Z8zDep5wbtzx");

/// A state tree of one version, and where new accounts are written.
#[derive(Clone, Copy)]
struct Tree {
    tree: Pubkey,
    queue: Pubkey,
    output: Pubkey,
}

const V1: Tree = Tree {
    tree: pubkey!("smt1NamzXdq4AMqS2fS2F1i5KTYPZRhoHgWx38d8WsT"),
    queue: pubkey!("nfq1NvQDJ2GEgnS8zt9prAe8rjjpAW1zFkrvZoBR148"),
    output: pubkey!("smt1NamzXdq4AMqS2fS2F1i5KTYPZRhoHgWx38d8WsT"),
};
const V2: Tree = Tree {
    tree: pubkey!("bmt1LryLZUMmF7ZtqESaw7wifBXLfXHQYoE4GAmrahU"),
    queue: pubkey!("oq1na8gojfdUhsfCpyjNt6h4JaDWtHf1yQj4koBWfto"),
    output: pubkey!("oq1na8gojfdUhsfCpyjNt6h4JaDWtHf1yQj4koBWfto"),
};

/// Lamports that enter or leave the compressed accounts.
enum Move {
    Nothing,
    In(u64),
    Out(u64, Pubkey),
}

fn account(owner: &Pubkey, lamports: u64) -> ProgramAccount {
    ProgramAccount {
        owner: owner.to_bytes().into(),
        lamports,
        address: None,
        data: None,
    }
}

fn invoke(
    payer: &Pubkey,
    tree: Tree,
    inputs: &[(CompressedAccount, Option<u16>)],
    outputs: &[(Pubkey, u64)],
    moved: Move,
    proof: Option<CompressedProof>,
) -> Instruction {
    let data = InstructionDataInvoke {
        proof,
        input_compressed_accounts_with_merkle_context: inputs
            .iter()
            .map(|(input, root)| PackedCompressedAccountWithMerkleContext {
                compressed_account: account(&input.owner, input.lamports),
                merkle_context: PackedMerkleContext {
                    merkle_tree_pubkey_index: 0,
                    queue_pubkey_index: 1,
                    leaf_index: input.leaf_index,
                    prove_by_index: root.is_none(),
                },
                root_index: root.unwrap_or(0),
                read_only: false,
            })
            .collect(),
        output_compressed_accounts: outputs
            .iter()
            .map(
                |(owner, lamports)| OutputCompressedAccountWithPackedContext {
                    compressed_account: account(owner, *lamports),
                    merkle_tree_index: u8::from(tree.output == tree.queue),
                },
            )
            .collect(),
        relay_fee: None,
        new_address_params: vec![],
        compress_or_decompress_lamports: match moved {
            Move::Nothing => None,
            Move::In(lamports) | Move::Out(lamports, _) => Some(lamports),
        },
        is_compress: matches!(moved, Move::In(_)),
    };
    let body = borsh::to_vec(&data).unwrap();
    let none = AccountMeta::new_readonly(LIGHT_SYSTEM, false);
    let pool = if matches!(moved, Move::Nothing) {
        none.clone()
    } else {
        AccountMeta::new(POOL, false)
    };
    let recipient = if let Move::Out(_, to) = moved {
        AccountMeta::new(to, false)
    } else {
        none
    };
    Instruction {
        program_id: LIGHT_SYSTEM,
        data: [&INVOKE[..], &(body.len() as u32).to_le_bytes(), &body].concat(),
        accounts: vec![
            AccountMeta::new(*payer, true),
            AccountMeta::new_readonly(*payer, true),
            AccountMeta::new_readonly(REGISTERED, false),
            AccountMeta::new_readonly(NOOP, false),
            AccountMeta::new_readonly(CPI_AUTHORITY, false),
            AccountMeta::new_readonly(COMPRESSION, false),
            pool,
            recipient,
            AccountMeta::new_readonly(SYSTEM, false),
            AccountMeta::new(tree.tree, false),
            AccountMeta::new(tree.queue, false),
        ],
    }
}

async fn send(
    rpc: &mut LightClient,
    payer: &Keypair,
    instruction: Instruction,
) -> Result<(), Failure> {
    let units = [&[2u8][..], &1_000_000u32.to_le_bytes()].concat();
    let limit = Instruction {
        program_id: COMPUTE_BUDGET,
        accounts: vec![],
        data: units,
    };
    rpc.create_and_send_transaction(&[limit, instruction], &payer.pubkey(), &[payer])
        .await?;
    Ok(())
}

async fn now(rpc: &LightClient) -> Result<Option<IndexerRpcConfig>, Failure> {
    Ok(Some(IndexerRpcConfig {
        slot: rpc.get_slot().await?,
        retry_config: RetryConfig::default(),
    }))
}

async fn owned(rpc: &LightClient, owner: &Pubkey) -> Result<Vec<CompressedAccount>, Failure> {
    let config = now(rpc).await?;
    Ok(rpc
        .get_compressed_accounts_by_owner(owner, None, config)
        .await?
        .value
        .items)
}

/// Return accounts with root indices and the proof of the indexer, none where an index in a queue is enough.
async fn proved(
    rpc: &LightClient,
    accounts: Vec<CompressedAccount>,
) -> Result<
    (
        Vec<(CompressedAccount, Option<u16>)>,
        Option<CompressedProof>,
    ),
    Failure,
> {
    let hashes = accounts.iter().map(|account| account.hash).collect();
    let config = now(rpc).await?;
    let found = rpc.get_validity_proof(hashes, vec![], config).await?.value;
    let roots = found.get_root_indices();
    let proof = found.proof.0;
    Ok((accounts.into_iter().zip(roots).collect(), proof))
}

/// Ask the prover directly, for the proof that a V1 account is in its tree.
async fn prove(
    rpc: &LightClient,
    prover: &str,
    hash: [u8; 32],
) -> Result<CompressedProof, Failure> {
    let config = now(rpc).await?;
    let found = rpc
        .get_multiple_compressed_account_proofs(vec![hash], config)
        .await?
        .value;
    let path = &found.items[0];
    // The crate drops the ten upper nodes, which the tree's account has; they are empty in a small tree.
    let upper = &Poseidon::zero_bytes()[path.proof.len()..26];
    let number = |bytes: &[u8; 32]| BigInt::from_bytes_be(Sign::Plus, bytes);
    let inputs = [InclusionMerkleProofInputs {
        root: number(&path.root),
        leaf: number(&path.hash),
        path_index: BigInt::from(path.leaf_index),
        path_elements: path.proof.iter().chain(upper).map(number).collect(),
    }];
    let request =
        BatchInclusionJsonStruct::from_inclusion_proof_inputs(&InclusionProofInputs(&inputs))
            .to_string();
    let client = ProofClient::with_config(
        prover.to_string(),
        Duration::from_millis(100),
        Duration::from_secs(60),
        None,
    );
    let proof = client.generate_proof(request).await?.proof;
    Ok(CompressedProof {
        a: proof.a,
        b: proof.b,
        c: proof.c,
    })
}

/// Compress a SOL, transfer 0.3 of it, decompress 0.2 of it.
async fn life(rpc: &mut LightClient, prover: &str, tree: Tree) -> Result<Value, Failure> {
    let (payer, friend) = (Keypair::new(), Keypair::new().pubkey());
    let own = payer.pubkey();
    rpc.airdrop_lamports(&own, 10 * SOL).await?;
    send(
        rpc,
        &payer,
        invoke(&own, tree, &[], &[(own, SOL)], Move::In(SOL), None),
    )
    .await?;
    let accounts = owned(rpc, &own).await?;
    let compressed = accounts[0].lamports;
    let config = now(rpc).await?;
    let by_hash = rpc
        .get_compressed_account_by_hash(accounts[0].hash, config)
        .await?
        .value
        .unwrap()
        .lamports;
    let direct = if tree.tree == V1.tree {
        Some(prove(rpc, prover, accounts[0].hash).await?)
    } else {
        None
    };
    let (inputs, proof) = proved(rpc, accounts).await?;
    let with_proof = proof.is_some();
    let outputs = [(friend, 3 * SOL / 10), (own, 7 * SOL / 10)];
    send(
        rpc,
        &payer,
        invoke(
            &own,
            tree,
            &inputs,
            &outputs,
            Move::Nothing,
            direct.or(proof),
        ),
    )
    .await?;
    let (inputs, proof) = proved(rpc, owned(rpc, &own).await?).await?;
    let before = rpc.get_balance(&friend).await?;
    let out = Move::Out(2 * SOL / 10, friend);
    send(
        rpc,
        &payer,
        invoke(&own, tree, &inputs, &[(own, 5 * SOL / 10)], out, proof),
    )
    .await?;
    let config = now(rpc).await?;
    let signatures = rpc
        .get_compression_signatures_for_owner(&own, None, config)
        .await?
        .value;
    let config = now(rpc).await?;
    Ok(json!({
        "compressed": compressed,
        "byHash": by_hash,
        "proved": with_proof,
        "received": rpc.get_compressed_balance_by_owner(&friend, config).await?.value,
        "decompressed": rpc.get_balance(&friend).await? - before,
        "left": owned(rpc, &own).await?[0].lamports,
        "transactions": signatures.items.len(),
    }))
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let [url, indexer, prover]: [String; 3] = std::env::args()
        .skip(1)
        .collect::<Vec<_>>()
        .try_into()
        .unwrap();
    let mut rpc = LightClient::new(LightClientConfig::new(url, Some(indexer))).await?;
    let address = [&[0u8][..], &[7; 31]].concat().try_into().unwrap();
    let config = now(&rpc).await?;
    let fresh = vec![AddressWithTree {
        address,
        tree: ADDRESS_TREE,
    }];
    let new_address = rpc.get_validity_proof(vec![], fresh, config).await?.value;
    let seen = json!({
        "healthy": rpc.get_indexer_health(None).await?,
        "newAddress": new_address.proof.0.is_some() && new_address.addresses.len() == 1,
        "v1": life(&mut rpc, &prover, V1).await?,
        "v2": life(&mut rpc, &prover, V2).await?,
    });
    println!("{seen}");
    Ok(())
}
