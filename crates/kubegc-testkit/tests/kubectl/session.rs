//! Runs one `kubectl` command after another, and makes their output comparable.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

/// A variable of the environment.
#[expect(
    clippy::disallowed_methods,
    reason = "the only way to pass an argument to a test"
)]
pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The program, if there is one that can be run.
pub(crate) fn kubectl() -> Option<PathBuf> {
    let program = environment("KUBEGC_KUBECTL").unwrap_or_else(|| "kubectl".to_owned());
    let mut version = Command::new(&program);
    version.args(["version", "--client"]).stdin(Stdio::null());
    version.output().ok()?.status.success().then(|| program.into())
}

/// The environment of commands: a directory and a server.
#[derive(Clone)]
pub(crate) struct Session {
    kubectl: PathBuf,
    directory: PathBuf,
    home: Arc<Home>,
}

/// A directory for configuration and caches; removed with the last session.
struct Home(PathBuf);

impl Drop for Home {
    fn drop(&mut self) {
        // Nothing depends on it any more; a remaining temporary directory does no harm.
        let _kept = fs::remove_dir_all(&self.0);
    }
}

impl Session {
    pub(crate) fn new(kubectl: PathBuf, kubeconfig: &str, directory: &Path) -> Self {
        let home = std::env::temp_dir().join(format!("kubegc-kubectl-{}", std::process::id()));
        fs::create_dir_all(&home).expect("the directory for temporary files can be written");
        fs::write(home.join("config"), kubeconfig).expect("the directory for temporary files can be written");
        Self {
            kubectl,
            directory: directory.to_owned(),
            home: Arc::new(Home(home)),
        }
    }

    /// Runs a command line that begins with `kubectl`; what it printed, and its exit code where that is not
    /// 0.
    pub(crate) fn run(&self, line: &str) -> String {
        let mut words = words(line).into_iter();
        assert_eq!(words.next().as_deref(), Some("kubectl"), "{line}");
        let output = Command::new(&self.kubectl)
            .args(words)
            .current_dir(&self.directory)
            .env_clear()
            .env("HOME", &self.home.0)
            .env("KUBECONFIG", self.home.0.join("config"))
            .stdin(Stdio::null())
            .output()
            .expect("kubectl was run before");
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        let mut text: String = text.lines().map(comparable).collect();
        // Newer releases describe this section of ConfigMaps, too.
        text = text.replace("BinaryData\n====\n", "");
        if !output.status.success() {
            text.push_str(&format!("[exit {}]\n", output.status.code().unwrap_or(-1)));
        }
        text
    }
}

/// The words of a command line; single quotes keep a word together.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for (index, part) in line.split('\'').enumerate() {
        if index % 2 == 1 {
            match words.last_mut() {
                Some(word) => word.push_str(part),
                None => words.push(part.to_owned()),
            }
            continue;
        }
        let mut pieces = part.split(' ');
        if let (Some(first), Some(word)) = (pieces.next(), words.last_mut()) {
            word.push_str(first);
        } else if index == 0 {
            words.push(part.split(' ').next().unwrap_or_default().to_owned());
        }
        words.extend(pieces.map(ToOwned::to_owned));
    }
    words.retain(|word| !word.is_empty());
    words
}

/// A line without the parts that differ from run to run: ages in seconds, and the spaces after columns.
/// Releases differ in empty lines and in their logs: both are left out.
fn comparable(line: &str) -> String {
    let is_log = |line: &str| {
        let date = line.get(1..5).unwrap_or_default();
        line.starts_with('W') && date.len() == 4 && date.bytes().all(|byte| byte.is_ascii_digit())
    };
    if line.trim().is_empty() || is_log(line) {
        return String::new();
    }
    let is_age = |word: &str| {
        word.strip_suffix('s')
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let line = line.trim_end();
    let line = match line.rsplit_once(' ') {
        Some((before, word)) if is_age(word) => format!("{before} <age>"),
        _ => line.to_owned(),
    };
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_words_together() {
        assert_eq!(
            words(r#"kubectl patch cm a -p '{"data": {"a": "1"}}' --type='merge'"#),
            [
                "kubectl",
                "patch",
                "cm",
                "a",
                "-p",
                r#"{"data": {"a": "1"}}"#,
                "--type=merge"
            ]
        );
    }

    #[test]
    fn ages_are_not_compared() {
        assert_eq!(comparable("web   1/1   12s  "), "web   1/1   <age>\n");
        assert_eq!(comparable("--timeout=3s"), "--timeout=3s\n");
        assert_eq!(comparable("W0102 03:04:05.000000 1 reflector.go:1] ended"), "");
        assert_eq!(comparable("Web"), "Web\n");
    }
}
