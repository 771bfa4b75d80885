//! Answers, for each line of standard input, how the published crates of Solana's node decode an account or an instruction.

use solana_account_decoder::parse_account_data::{
    parse_account_data_v3, AccountAdditionalDataV3, SplTokenAdditionalDataV2,
};
use solana_message::{compiled_instruction::CompiledInstruction, AccountKeys};
use solana_pubkey::Pubkey;
use solana_transaction_status::parse_instruction::parse;
use std::{io::BufRead, str::FromStr};

fn key(value: &serde_json::Value) -> Pubkey {
    Pubkey::from_str(value.as_str().unwrap()).unwrap()
}

fn main() {
    for line in std::io::stdin().lock().lines() {
        let request: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        let data = hex::decode(request["data"].as_str().unwrap()).unwrap();
        let decoded = if let Some(decimals) = request.get("decimals") {
            let additional = decimals
                .as_u64()
                .map(|decimals| SplTokenAdditionalDataV2::with_decimals(decimals as u8));
            let additional = AccountAdditionalDataV3 {
                spl_token_additional_data: additional,
            };
            let owner = key(&request["owner"]);
            parse_account_data_v3(&Pubkey::default(), &owner, &data, Some(additional))
                .ok()
                .map(|parsed| serde_json::to_value(parsed).unwrap())
        } else {
            let keys: Vec<Pubkey> = request["accounts"]
                .as_array()
                .unwrap()
                .iter()
                .map(key)
                .collect();
            let instruction = CompiledInstruction {
                program_id_index: 0,
                accounts: (0..keys.len() as u8).collect(),
                data,
            };
            parse(
                &key(&request["program"]),
                &instruction,
                &AccountKeys::new(&keys, None),
                None,
            )
            .ok()
            .map(|parsed| serde_json::to_value(parsed).unwrap())
        };
        println!("{}", serde_json::to_string(&decoded).unwrap());
    }
}
