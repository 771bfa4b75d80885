//! Deploys a program through the upgradeable loader with the instructions of `solana program deploy`, calls it, and
//! upgrades it. Prints the program's address.

use solana_commitment_config::CommitmentConfig;
use solana_instruction::Instruction;
use solana_keypair::{read_keypair_file, Keypair};
use solana_loader_v3_interface::{
    instruction::{create_buffer, deploy_with_max_program_len, upgrade, write},
    state::UpgradeableLoaderState,
};
use solana_pubkey::Pubkey;
use solana_rpc_client::rpc_client::RpcClient;
use solana_signer::Signer;
use solana_transaction::Transaction;

type Failure = Box<dyn std::error::Error>;

const CHUNK: usize = 900;

struct Deployer {
    rpc: RpcClient,
    payer: Keypair,
}

impl Deployer {
    fn send(&self, instructions: &[Instruction], others: &[&Keypair]) -> Result<(), Failure> {
        let signers: Vec<&Keypair> = [&[&self.payer], others].concat();
        let blockhash = self.rpc.get_latest_blockhash()?;
        let payer = self.payer.pubkey();
        let transaction =
            Transaction::new_signed_with_payer(instructions, Some(&payer), &signers, blockhash);
        self.rpc.send_and_confirm_transaction(&transaction)?;
        Ok(())
    }

    fn rent(&self, size: usize) -> Result<u64, Failure> {
        Ok(self.rpc.get_minimum_balance_for_rent_exemption(size)?)
    }

    /// Write a program into a new buffer.
    fn buffer(&self, content: &[u8]) -> Result<Pubkey, Failure> {
        let (own, buffer) = (self.payer.pubkey(), Keypair::new());
        let rent = self.rent(UpgradeableLoaderState::size_of_buffer(content.len()))?;
        let create = create_buffer(&own, &buffer.pubkey(), &own, rent, content.len())?;
        self.send(&create, &[&buffer])?;
        for (index, part) in content.chunks(CHUNK).enumerate() {
            let offset = (index * CHUNK) as u32;
            self.send(&[write(&buffer.pubkey(), &own, offset, part.to_vec())], &[])?;
        }
        Ok(buffer.pubkey())
    }
}

fn main() -> Result<(), Failure> {
    let [url, key, file]: [String; 3] = std::env::args()
        .skip(1)
        .collect::<Vec<_>>()
        .try_into()
        .unwrap();
    let deployer = Deployer {
        rpc: RpcClient::new_with_commitment(url, CommitmentConfig::processed()),
        payer: read_keypair_file(key)?,
    };
    let (own, program, content) = (
        deployer.payer.pubkey(),
        Keypair::new(),
        std::fs::read(file)?,
    );
    let call = Instruction::new_with_bytes(program.pubkey(), b"hello", vec![]);
    let buffer = deployer.buffer(&content)?;
    let rent = deployer.rent(UpgradeableLoaderState::size_of_program())?;
    let size = 2 * content.len();
    let deploy = deploy_with_max_program_len(&own, &program.pubkey(), &buffer, &own, rent, size)?;
    deployer.send(&deploy, &[&program])?;
    deployer.send(&[call.clone()], &[])?;
    let buffer = deployer.buffer(&content)?;
    deployer.send(&[upgrade(&program.pubkey(), &buffer, &own, &own)], &[])?;
    deployer.send(&[call], &[])?;
    println!("{}", program.pubkey());
    Ok(())
}
