//! Compiles the `.proto` files without protoc: Rust types for code, a descriptor set for the schema registry.

use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let mut files = Vec::new();
    collect(PathBuf::from("proto"), &mut files)?;
    files.sort();

    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_source_info(true).include_imports(true);
    compiler.open_files(files)?;

    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), compiler.encode_file_descriptor_set())?;
    prost_build::Config::new().include_file("_mod.rs").compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}

fn collect(dir: PathBuf, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            files.push(path.strip_prefix("proto")?.to_path_buf());
        }
    }
    Ok(())
}
