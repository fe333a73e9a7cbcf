//! Commands that scripts rely on.

use branchyard_testkit::{Actor, run_with_input};

use crate::process::program;

#[test]
fn a_token_made_beside_a_running_server_works_and_only_its_hash_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let server = program().start(dir.path());
    program().succeed(dir.path(), &["user", "create", "ada", "--email", "ada@example.test"]);
    let token =
        program().succeed(dir.path(), &["token", "create", "--user", "ada", "--name", "ci", "--expires", "90d"]);
    assert!(token.starts_with("hsat.v1.") && token.len() == 57, "{token}");
    let ada = Actor::new(server.origin.clone(), Some(token.clone()), "ada");
    assert_eq!(ada.get("/user").expect(200).data()["username"], "ada");
    server.terminate();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let found = bytes.windows(token.len()).any(|window| window == token.as_bytes());
            assert!(!found, "the secret is in {}", path.display());
        }
    }
}

#[test]
fn commands_refuse_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    program().succeed(dir, &["user", "create", "ada", "--email", "ada@example.test"]);
    let cases: &[(&[&str], &str)] = &[
        (&["user", "create", "Ada", "--email", "a@b"], "taken"),
        (&["user", "create", "ab", "--email", "a@b"], "3 to 32"),
        (&["user", "create", "api", "--email", "a@b"], "reserved"),
        (&["user", "create", "bob", "--email", "nobody"], "email"),
        (&["token", "create", "--user", "ada", "--name", "x", "--expires", "2y"], "30d"),
        (&["token", "create", "--user", "nobody", "--name", "x", "--expires", "30d"], "nobody"),
    ];
    for (args, expected) in cases {
        let output = program().run(dir, args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(expected), "{args:?}: {said}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
    let output = run_with_input(
        &mut program().on(dir, &["user", "create", "carol", "--email", "c@d", "--password-stdin"]),
        "short",
    );
    assert!(String::from_utf8_lossy(&output.stderr).contains('8'), "{output:?}");
}

#[test]
fn a_second_server_on_the_same_folder_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let _server = program().start(dir.path());
    let output = program().run(dir.path(), &["serve", "--listen", "127.0.0.1:0"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("another server"), "{output:?}");
}

#[test]
fn healthcheck_migrate_and_doctor_answer() {
    let dir = tempfile::tempdir().unwrap();
    let server = program().start(dir.path());
    let output = program().command().args(["healthcheck", "--url", &server.origin]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ready\n");
    assert_eq!(program().succeed(dir.path(), &["migrate", "--check"]), "the metadata store is up to date");
    server.terminate();
    assert_eq!(program().succeed(dir.path(), &["doctor"]), "everything is in order");
    let output = program().run(dir.path(), &["doctor"]);
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(notes.contains("the kernel offers: seccomp") && notes.contains("Landlock"), "{notes}");
}

#[cfg(unix)]
#[test]
fn what_a_command_creates_is_private_and_doctor_warns_of_what_is_not() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("data");
    program().succeed(&dir, &["user", "create", "ada", "--email", "ada@example.test"]);
    program().start(&dir).terminate();
    let copy = home.path().join("copy");
    program().succeed(&dir, &["backup", "--to", copy.to_str().unwrap()]);
    for folder in [&dir, &copy] {
        assert_eq!(branchyard::private::readable_by_others(folder).unwrap(), (Vec::new(), 0));
    }
    let warned = || {
        let output = program().run(&dir, &["doctor"]);
        assert!(output.status.success(), "a warning is not a finding: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(!warned().contains("others can read"));
    let key = dir.join("server.key");
    for path in [&dir, &key] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let lines = warned();
    assert!(lines.contains(&format!("others can read {}\n", key.display())), "{lines}");
    assert!(lines.contains(&format!("`chmod -R go= {}` ends it", dir.display())), "{lines}");
}

#[test]
fn a_store_of_databases_without_postgres_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file://{}", dir.path().join("store").display());
    let by_flag = program().run(dir.path(), &["doctor", "--store-url", &url]);
    let mut by_variable = program().command();
    by_variable.args(["doctor", "--data-dir"]).arg(dir.path()).env("BRANCHYARD_STORE_URL", &url);
    for output in [by_flag, by_variable.output().unwrap()] {
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains("store_url needs a metadata_url on Postgres"), "{error}");
    }
    assert!(!dir.path().join("store").exists() && !dir.path().join("metadata.sqlite").exists());
    let output = program().run(dir.path(), &["doctor", "--store-url", "s3://key:hush@yard"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("store_url") && !error.contains("hush"), "{error}");
}

/// A command line is readable by every user of the machine.
#[cfg(target_os = "linux")]
#[test]
fn the_password_of_a_metadata_url_does_not_stay_on_the_command_line() {
    let dir = tempfile::tempdir().unwrap();
    // Accepts the connection and never answers, so that the server waits.
    let store = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://ada:planted-password@{}/yard", store.local_addr().unwrap());
    let mut server = program().on(dir.path(), &["serve", "--metadata-url", &url, "--no-migrate"]).spawn().unwrap();
    let connected = store.accept().unwrap();
    let line = std::fs::read_to_string(format!("/proc/{}/cmdline", server.id())).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    drop(connected);
    assert!(line.contains("--no-migrate") && !line.contains("planted-password"), "{line:?}");
}

#[test]
fn an_operator_gives_a_user_another_password() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    program().succeed(dir, &["user", "create", "ada", "--email", "ada@example.test"]);
    let reset = run_with_input(&mut program().on(dir, &["user", "reset-password", "Ada"]), "correct horse\n");
    assert!(reset.status.success(), "{}", String::from_utf8_lossy(&reset.stderr));
    let mint = || program().succeed(dir, &["token", "create", "--user", "ada", "--name", "ci", "--expires", "30d"]);
    let server = program().start(dir);
    let works =
        |token: &str| Actor::new(server.origin.clone(), Some(token.to_owned()), "ada").get("/user").status == 200;
    let tokens = [mint(), mint()];
    let reset = |flags: &[&str]| {
        let args = [&["user", "reset-password", "ada"], flags].concat();
        let output = run_with_input(&mut program().on(dir, &args), "battery staple\n");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(reset(&[]), "changed the password of ada and ended all sessions\n");
    assert!(tokens.iter().all(|token| works(token)));
    assert_eq!(
        reset(&["--delete-tokens"]),
        "changed the password of ada and ended all sessions; tokens, keys and grants deleted: 2\n"
    );
    assert!(!tokens.iter().any(|token| works(token)));
    server.terminate();
    for (name, password, why) in [("ada", "short", "8"), ("nobody", "correct horse", "no user"), ("!", "x", "3 to 32")]
    {
        let refused = run_with_input(&mut program().on(dir, &["user", "reset-password", name]), password);
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && told.contains(why), "{name}: {told}");
    }
}

#[test]
fn an_operator_suspends_users_and_quarantines_databases_beside_a_running_server() {
    use serde_json::{Value, json};

    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    program().succeed(dir, &["user", "create", "root", "--email", "root@example.test", "--admin"]);
    program().succeed(dir, &["user", "create", "ada", "--email", "ada@example.test"]);
    let mint = |user: &str| {
        program().succeed(dir, &["token", "create", "--user", user, "--name", "ci\u{7}", "--expires", "30d"])
    };
    let server = program().start(dir);
    let (token, of_root) = (mint("ada"), mint("root"));
    let actor = |token: &str| Actor::new(server.origin.clone(), Some(token.to_owned()), "ada");
    let (ada, root) = (actor(&token), actor(&of_root));
    let one = |args: &[&str]| serde_json::from_str::<Value>(&program().succeed(dir, args)).unwrap();
    let lines = |args: &[&str]| {
        let said = program().succeed(dir, args);
        said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>()
    };
    ada.database("rivers");

    let users = lines(&["user", "list", "--json"]);
    assert_eq!(users.iter().map(|user| &user["name"]).collect::<Vec<_>>(), ["ada", "root"]);
    assert_eq!((&users[0]["admin"], &users[1]["admin"]), (&json!(false), &json!(true)));
    assert!(users[0]["suspended_at"].is_null() && users[0]["created_at"].is_string());
    assert!(users[0].as_object().unwrap().contains_key("last_seen_at"));
    assert!(one(&["user", "suspend", "Ada", "--json"])["suspended_at"].is_string());
    ada.get("/user").expect(401);
    root.get("/databases/ada/rivers").expect(200);
    assert!(program().succeed(dir, &["user", "list"]).contains("suspended"));
    assert_eq!(one(&["user", "resume", "ada", "--json"])["suspended_at"], json!(null));
    ada.get("/user").expect(200);

    assert!(one(&["database", "quarantine", "ada/Rivers", "--json"])["quarantined_at"].is_string());
    ada.get("/databases/ada/rivers").expect(404);
    root.get("/databases/ada/rivers").expect(200);
    let released = one(&["database", "release", "ada/rivers", "--json"]);
    assert_eq!(released, json!({"database": "ada/rivers", "quarantined_at": null}));
    ada.write("ada/rivers", "main", "create table t (id integer primary key)");

    let another = mint("ada");
    let listed = lines(&["token", "list", "ada", "--json"]);
    assert_eq!(listed.len(), 2);
    let text = program().succeed(dir, &["token", "list", "ada"]);
    assert!(!text.contains(&token) && !text.contains(&another) && !text.contains('\u{7}'), "{text}");
    let newest = listed[0]["id"].as_str().unwrap();
    assert_eq!(one(&["token", "revoke", newest, "--json"]), json!({"tokens_revoked": 1}));
    actor(&another).get("/user").expect(401);
    ada.get("/user").expect(200);
    assert_eq!(one(&["token", "revoke", "--user", "ada", "--all", "--json"]), json!({"tokens_revoked": 1}));
    ada.get("/user").expect(401);
    assert_eq!(program().succeed(dir, &["session", "list", "ada", "--json"]), "");
    assert_eq!(one(&["session", "end", "--user", "ada", "--all", "--json"]), json!({"sessions_ended": 0}));
    assert_eq!(one(&["user", "make-admin", "ada", "--json"])["admin"], json!(true));
    server.terminate();

    let unknown = "0199c3a7-1111-7222-8333-444455556666";
    let cases: &[(&[&str], &str)] = &[
        (&["user", "suspend", "nobody"], "no user 'nobody'"),
        (&["user", "resume", "nobody"], "no user 'nobody'"),
        (&["user", "make-admin", "nobody"], "no user 'nobody'"),
        (&["token", "list", "nobody"], "no user 'nobody'"),
        (&["token", "revoke", unknown], "no token"),
        (&["token", "revoke", "--user", "nobody", "--all"], "no user 'nobody'"),
        (&["session", "list", "nobody"], "no user 'nobody'"),
        (&["session", "end", unknown], "no session"),
        (&["database", "quarantine", "ada/nothing"], "no database 'ada/nothing'"),
        (&["database", "release", "rivers"], "OWNER/NAME"),
    ];
    for (args, expected) in cases {
        let output = program().run(dir, args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains(expected) && output.stdout.is_empty(), "{args:?}: {said}");
    }
    for args in [&["token", "revoke"][..], &["token", "revoke", "--user", "ada"], &["session", "end", "x", "--all"]] {
        assert_eq!(program().run(dir, args).status.code(), Some(2), "{args:?}: all of a user is asked for in words");
    }
    let audited = program().run(dir, &["user", "suspend", "root"]);
    assert!(String::from_utf8_lossy(&audited.stderr).contains("audit: the operator did `user suspend` on root"));
    let last = program().run(dir, &["user", "suspend", "ada"]);
    assert!(String::from_utf8_lossy(&last.stderr).contains("last administrator"), "{last:?}");
}

#[test]
fn every_shell_accepts_its_completions() {
    use std::io::Write as _;

    // A shell that is missing here checks nothing; bash is on every machine that runs these tests.
    for (shell, check) in [("bash", &["-n"][..]), ("zsh", &["-n"]), ("fish", &["--no-execute"])] {
        let output = program().command().args(["completions", shell]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{shell}");
        for word in ["healthcheck", "reset-password", "data-dir", "encrypt-to"] {
            assert!(text.contains(word), "{shell} does not complete {word}");
        }
        // Only the server starts these.
        for hidden in ["sql-worker", "serve-deployment", "stage-files"] {
            assert!(!text.contains(hidden), "{shell} completes {hidden}");
        }
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let checked = std::process::Command::new(shell).args(check).arg(file.path()).output();
        assert!(shell != "bash" || checked.is_ok(), "bash is missing");
        if let Ok(checked) = checked {
            assert!(checked.status.success(), "{shell}: {}", String::from_utf8_lossy(&checked.stderr));
        }
    }
    let output = program().command().args(["completions", "tcsh"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("bash, zsh, fish"), "{output:?}");
}

#[test]
fn each_documented_command_has_a_manual_page() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("share/man1");
    let output = program().command().arg("man").arg(&folder).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut names: Vec<String> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    for name in ["branchyard.1", "branchyard-serve.1", "branchyard-user-create.1", "branchyard-man.1"] {
        assert!(names.iter().any(|found| found == name), "{name} is missing: {names:?}");
    }
    assert!(!names.iter().any(|name| name.contains("worker") || name.contains("deployment") || name.contains("stage")));
    let page = std::fs::read_to_string(folder.join("branchyard-backup.1")).unwrap();
    assert!(page.starts_with(".ie") || page.contains(".TH branchyard-backup 1"), "{page}");
    assert!(page.contains("Encrypt each file with age to this recipient"), "{page}");

    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let output = program().command().arg("man").arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write manual pages to"), "{output:?}");
}
