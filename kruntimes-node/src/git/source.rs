//! Which repositories and revisions a Run may name (node, N-47 and N-48).

use kruntimes_core::api::Source;
use kruntimes_core::message::quoted;

/// A repository and what to check out of it, both safe to hand to git.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GitSource {
    pub(crate) url: String,
    /// Object or ref; the default branch when absent.
    pub(crate) commit: Option<String>,
}

/// A value that is not handed to git. The text names the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refused(String);

fn refused(text: impl Into<String>) -> Refused {
    Refused(text.into())
}

impl GitSource {
    /// Reads the git part of a source; nothing when there is none (N-55).
    pub(crate) fn of(source: &Source) -> Result<Option<Self>, Refused> {
        let Some(url) = &source.repo_url else {
            return match source.commit_sha.as_deref() {
                None | Some("") => Ok(None),
                Some(_) => Err(refused("commitSHA needs repoURL")),
            };
        };
        check_url(url)?;
        let commit = source.commit_sha.clone().filter(|value| !value.is_empty());
        if let Some(commit) = &commit {
            check_commit(commit)?;
        }
        Ok(Some(Self {
            url: url.clone(),
            commit,
        }))
    }
}

fn check_url(url: &str) -> Result<(), Refused> {
    if url.is_empty() {
        return Err(refused("repoURL is empty"));
    }
    if url.starts_with('-') {
        return Err(refused("repoURL must not begin with a hyphen"));
    }
    if url.contains(|c: char| c.is_control() || c.is_whitespace()) {
        return Err(refused("repoURL contains a blank or a control character"));
    }
    if let Some(scheme) = scheme(url) {
        if scheme != "https" && scheme != "ssh" {
            let scheme = quoted(scheme);
            return Err(refused(format!("repoURL scheme {scheme} is not allowed")));
        }
        let rest = &url[scheme.len() + "://".len()..];
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        return check_parts(user, host, path);
    }
    let (place, path) = url.split_once(':').unwrap_or((url, ""));
    match place.split_once('@') {
        Some((user, host)) if !user.is_empty() && !place.contains('/') => {
            check_parts(user, host, path)
        }
        Some(_) | None => Err(form()),
    }
}

fn form() -> Refused {
    refused("repoURL must be https://…, ssh://… or user@host:path")
}

/// Returns what stands before `://`, or before the `::` of a remote helper.
fn scheme(url: &str) -> Option<&str> {
    let end = url.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '-')))?;
    let (scheme, rest) = url.split_at(end);
    (rest.starts_with("://") || rest.starts_with("::")).then_some(scheme)
}

fn check_parts(user: &str, host: &str, path: &str) -> Result<(), Refused> {
    let name = host.split(':').next().unwrap_or_default();
    if name.is_empty() || path.is_empty() {
        return Err(form());
    }
    let hyphen = [user, host, path].iter().any(|part| part.starts_with('-'));
    // git decodes these, so a hyphen could hide in them.
    if hyphen || host.contains('%') || user.starts_with('%') {
        return Err(refused(
            "repoURL has a user, host or path that begins with a hyphen, or an encoded host",
        ));
    }
    Ok(())
}

fn check_commit(commit: &str) -> Result<(), Refused> {
    if commit.starts_with('-') {
        return Err(refused("commitSHA must not begin with a hyphen"));
    }
    if commit.contains(|c: char| c.is_control() || c.is_whitespace()) {
        return Err(refused("commitSHA contains a blank or a control character"));
    }
    // None of these is part of a name; to git they mean patterns, ranges and places to write to.
    let special = commit.contains([':', '*', '?', '[', '\\', '^', '~']);
    if special || commit.starts_with('+') || commit.contains("..") || commit.contains("@{") {
        return Err(refused(
            "commitSHA is neither an object nor the name of a ref",
        ));
    }
    Ok(())
}

/// Hides the user part of every address in a text (N-52).
pub(crate) fn without_credentials(text: &str) -> String {
    let mut hidden = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + "://".len());
        hidden.push_str(before);
        let end = after
            .find(|c: char| c == '/' || c.is_whitespace() || matches!(c, '\'' | '"' | '<' | '>'))
            .unwrap_or(after.len());
        rest = match after[..end].rfind('@') {
            Some(user) => {
                hidden.push_str("***");
                &after[user..]
            }
            None => after,
        };
    }
    hidden.push_str(rest);
    hidden
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(url: &str, commit: Option<&str>) -> Source {
        Source {
            repo_url: Some(url.into()),
            commit_sha: commit.map(Into::into),
            ..Source::default()
        }
    }

    #[test]
    fn n_47_n_55_three_forms_are_accepted() {
        for url in [
            "https://example.com/team/app.git",
            "https://user:secret@example.com:8443/app",
            "ssh://git@example.com:22/team/app.git",
            "ssh://example.com/~user/app",
            "git@example.com:team/app.git",
            "deploy@10.0.0.1:/srv/app",
        ] {
            let found = GitSource::of(&source(url, None)).unwrap().unwrap();
            assert_eq!(found.url, url);
        }
        assert_eq!(GitSource::of(&Source::default()), Ok(None), "N-55");
    }

    #[test]
    fn n_47_everything_else_is_refused_by_name() {
        for (url, want) in [
            ("", "repoURL is empty"),
            ("http://a/b", "repoURL scheme \"http\" is not allowed"),
            ("git://a/b", "repoURL scheme \"git\" is not allowed"),
            ("file:///etc", "repoURL scheme \"file\" is not allowed"),
            ("ftp://a/b", "repoURL scheme \"ftp\" is not allowed"),
            ("HTTPS://a/b", "repoURL scheme \"HTTPS\" is not allowed"),
            ("ext::sh", "repoURL scheme \"ext\" is not allowed"),
            ("fd::17/x", "repoURL scheme \"fd\" is not allowed"),
            ("ext::sh -c id", "repoURL contains a blank"),
            ("/srv/repo", "repoURL must be https://"),
            ("../repo", "repoURL must be https://"),
            ("repo", "repoURL must be https://"),
            ("git@host", "repoURL must be https://"),
            ("@host:x", "repoURL must be https://"),
            ("host:x", "repoURL must be https://"),
            ("./a@b:c", "repoURL must be https://"),
            ("https://", "repoURL must be https://"),
            ("https:///x", "repoURL must be https://"),
            ("ssh://git@/x", "repoURL must be https://"),
            ("--upload-pack=x", "repoURL must not begin with a hyphen"),
            ("ssh://-oProxyCommand=x/y", "repoURL has a user"),
            ("ssh://-x@host/y", "repoURL has a user"),
            ("ssh://%2doProxyCommand=x/y", "repoURL has a user"),
            ("git@-oProxyCommand=x:y", "repoURL has a user"),
            ("git@host:-x", "repoURL has a user"),
            ("https://a/b\nc", "repoURL contains a blank"),
        ] {
            let error = GitSource::of(&source(url, None)).unwrap_err().to_string();
            assert!(error.starts_with(want), "{url:?}: {error}");
        }
    }

    #[test]
    fn n_48_a_revision_is_never_an_option_or_a_pattern() {
        for commit in [
            "0123456789abcdef0123456789abcdef01234567",
            "main",
            "refs/pull/7/head",
            "v1.0",
            "feature/x-y",
        ] {
            let found = GitSource::of(&source("https://a/b", Some(commit)));
            assert_eq!(found.unwrap().unwrap().commit.as_deref(), Some(commit));
        }
        for commit in [
            "--orphan=x",
            "-b",
            "a b",
            "a\tb",
            "a\nb",
            "+main",
            "a:b",
            "refs/*",
            "a..b",
            "HEAD~1",
            "a^{}",
            "a@{1}",
            "a\\b",
        ] {
            let error = GitSource::of(&source("https://a/b", Some(commit))).unwrap_err();
            assert!(error.to_string().starts_with("commitSHA"), "{commit:?}");
        }
    }

    #[test]
    fn n_52_credentials_are_hidden_wherever_they_stand() {
        for (text, want) in [
            (
                "fatal: 'https://u:tok@h/r.git' no",
                "fatal: 'https://***@h/r.git' no",
            ),
            (
                "https://tok@h/a@b https://h/x@y",
                "https://***@h/a@b https://h/x@y",
            ),
            (
                "https://a:b@c@h/x\nssh://git@h/y",
                "https://***@h/x\nssh://***@h/y",
            ),
            ("plain", "plain"),
            ("://", "://"),
        ] {
            assert_eq!(without_credentials(text), want);
        }
    }
}
