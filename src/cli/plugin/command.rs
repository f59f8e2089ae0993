//! `repipe plugin`: what plugins there are, what one says of itself, and the beginnings of a new one.

use std::ffi::OsString;
use std::path::Path;

use clap::{Args, Subcommand};

use super::template;
use crate::cli::terminal::message;
use crate::error::Result;
use crate::plugin::native::{Info, Plugin, discover};

/// List plugins, tell about one, or begin a new one.
#[derive(Args, Debug)]
pub struct PluginCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// List the plugins that are found, and the folders that are looked in
    List {
        /// Load files that others may write, too
        #[arg(short, long)]
        force: bool,
    },
    /// Tell what a plugin says of itself
    Info {
        /// A name, or with a slash a path
        plugin: OsString,
        /// Load a file that others may write, too
        #[arg(short, long)]
        force: bool,
    },
    /// Make a folder with a plugin that builds at once
    New {
        /// The plugin's name, and the folder's
        name: String,
        /// Write it in C instead of Rust
        #[arg(long)]
        c: bool,
    },
}

/// Runs the command.
pub fn run(command: &PluginCommand) -> Result<()> {
    match &command.action {
        Action::List { force } => list(*force),
        Action::Info { plugin, force } => info(plugin, *force)?,
        Action::New { name, c } => new(name, *c)?,
    }
    Ok(())
}

fn list(force: bool) {
    let mut any = false;
    for path in discover::all() {
        match Plugin::inspect(&path, force) {
            Ok(info) => {
                any = true;
                println!("{:<12} {:<8} {}", info.name, info.version, info.summary);
                println!("{:<12} {}", "", path.display());
            }
            // What is no plugin at all, such as other libraries beside the program, is passed over.
            Err(e) if e.to_string().contains("so it is no plugin") => {}
            Err(e) => eprintln!("repipe: {}", message(&e.to_string())),
        }
    }
    if !any {
        println!("no plugins in:");
        discover::folders().iter().for_each(|folder| println!("  {}", folder.display()));
    }
}

fn info(plugin: &OsString, force: bool) -> Result<()> {
    let path = discover::find(plugin)?;
    let info = Plugin::inspect(&path, force)?;
    print!("{}", text(&info, &path));
    Ok(())
}

fn text(info: &Info, path: &Path) -> String {
    let mut out = format!("{} {}: {}\n", info.name, info.version, info.summary);
    let mut line = |what: &str, value: String| out.push_str(&format!("  {what:<11}{value}\n"));
    line("file", path.display().to_string());
    line("interface", format!("{}.{}", info.abi.0, info.abi.1));
    if !info.license.is_empty() {
        line("licence", info.license.clone());
    }
    let types: Vec<String> =
        info.record_types.iter().map(|&ty| crate::abi::record::RecordType(ty).to_string()).collect();
    line("records", if types.is_empty() { "all".into() } else { types.join(", ") });
    if !info.events.is_empty() {
        line("events", info.events.join(", "));
    }
    let order = match (info.by_time, info.needs_session) {
        (false, _) => "any",
        (true, true) => "by time, with maps and threads",
        (true, false) => "by time",
    };
    line("order", order.into());
    let needs = [
        (info.needs_symbols, "symbols"),
        (info.needs_unwind, "unwinding"),
        (info.edits_features, "to edit feature sections"),
    ];
    let needs: Vec<&str> = needs.iter().filter(|(on, _)| *on).map(|(_, what)| *what).collect();
    if !needs.is_empty() {
        line("needs", needs.join(", "));
    }
    if !info.description.is_empty() {
        out.push('\n');
        out.push_str(&info.description);
        out.push('\n');
    }
    out
}

fn new(name: &str, in_c: bool) -> Result<()> {
    template::write(Path::new(name), name, in_c)?;
    let (build, file) = match in_c {
        true => ("make".to_owned(), format!("{name}.so")),
        false => {
            let file = format!("target/release/librepipe_plugin_{}.so", name.replace('-', "_"));
            ("cargo test && cargo build --release".to_owned(), file)
        }
    };
    println!("{name}/ is there. Build and try it:");
    println!("  cd {name} && {build}");
    let arg = if in_c { "" } else { ":cpu=0" };
    println!("  repipe inject --plugin ./{file}{arg} -i perf.data -o out.data");
    Ok(())
}
