//! Backups, reboots, shutdown, start and deletion.

use std::time::{Duration, Instant};

use branchyard_testkit::{AMPLE, wait_for};

use super::super::live::{CHANGED, OpenStream};
use super::super::sign_up;
use super::{DeploymentPagesHarness, GAUGES, create};

#[test]
fn a_backup_is_made_downloaded_and_deleted() {
    let harness = DeploymentPagesHarness::with_gauges();
    let ada = &harness.ada;
    let path = format!("{GAUGES}/backups");
    let page = ada.get(&path).expect(200).shows("No backups yet");
    ada.submit(&page, &path, &[]).expect(303);
    let page = ada.settled(&path).shows("On demand");
    let id = page.text.split_once("<tr id=\"backup-").unwrap().1.split('"').next().unwrap().to_owned();
    let file = ada.get(&format!("{path}/{id}/gauges")).expect(200);
    assert_eq!(file.text, "the bytes of gauges");
    let named = file.headers["content-disposition"].to_str().unwrap().to_owned();
    assert_eq!(named, format!("attachment; filename=\"gauges-gauges-{id}.db\""));
    ada.get(&format!("{path}/{id}/nothing")).expect(404);
    ada.get(&format!("{path}/20200101T000000.000/gauges")).expect(404);
    ada.get(&format!("{GAUGES}/operations")).expect(200).shows(">Succeeded<").shows(&format!("#backup-{id}"));
    let delete = format!("{path}/{id}/delete");
    let question = ada.get(&delete).expect(200).shows("Delete this backup?");
    ada.submit(&question, &delete, &[]).expect(303);
    ada.get(&delete).expect(404);
    // The page that asked for the backup shows why it failed.
    harness.books.refuse_snapshot(Some("the disk says <no>"));
    ada.submit(&page, &path, &[]).expect(303);
    let page = ada.settled(&path).shows("The last backup failed").shows("&#60;no&#62;");
    assert!(!page.text.contains("<no>"));
}

#[test]
fn a_reboot_is_asked_for_and_ends_as_an_operation() {
    let harness = DeploymentPagesHarness::with_gauges();
    let ada = &harness.ada;
    let reboot = format!("{GAUGES}/instances/{}/reboot", harness.instance());
    let question = ada.get(&reboot).expect(200).shows("Reboot ada/gauges?");
    ada.submit(&question, &reboot, &[]).expect(303);
    ada.settled(&format!("{GAUGES}/operations")).shows("Reboot").shows(">Succeeded<");
    ada.get(&format!("{GAUGES}/instances/00000000-0000-7000-8000-000000000000/reboot")).expect(404);
    ada.get(&format!("{GAUGES}/instances/nonsense/reboot")).expect(404);
}

#[test]
fn an_open_page_learns_of_each_change_of_state() {
    let harness = DeploymentPagesHarness::with_gauges();
    let ada = &harness.ada;
    ada.get(GAUGES).expect(200).shows(&format!("data-watch=\"{GAUGES}/live\""));
    let mut stream = OpenStream::open(&harness.server, ada, &format!("{GAUGES}/live")).expect_open();
    let shutdown = format!("{GAUGES}/shutdown");
    let question = ada.get(&shutdown).expect(200);
    ada.submit(&question, &shutdown, &[]).expect(303);
    let asked = Instant::now();
    // Each event has the page look. The last one comes with the last change.
    while !ada.get(GAUGES).expect(200).text.contains(">Stopped<") {
        assert!(asked.elapsed() < AMPLE, "it does not stop");
        stream.until(CHANGED, AMPLE);
    }
    // A user without a role has no stream, and one who loses it has none any more.
    let bob = sign_up(&harness.server, "bob");
    OpenStream::open(&harness.server, &bob, &format!("{GAUGES}/live")).expect_status(404);
    let page = ada.get("/").expect(200);
    ada.submit(&page, "/sign-out", &[]).expect(303);
    stream.ends("rights", Duration::from_secs(1));
}

#[test]
fn an_open_list_learns_of_each_of_its_deployments() {
    let harness = DeploymentPagesHarness::with_gauges();
    let ada = &harness.ada;
    create(ada, &[("name", "scales")]);
    ada.settled("/deployments/ada/scales").shows(">Started<");
    let list = ada.get("/deployments/ada").expect(200);
    assert!(!list.text.contains("data-watch"), "nothing is about to change");
    let both = format!("{GAUGES}/live?also=scales");
    for name in ["gauges", "scales"] {
        let mut stream = OpenStream::open(&harness.server, ada, &both).expect_open();
        let shutdown = format!("/deployments/ada/{name}/shutdown");
        let question = ada.get(&shutdown).expect(200);
        ada.submit(&question, &shutdown, &[]).expect(303);
        stream.until(CHANGED, AMPLE);
        ada.settled(&format!("/deployments/ada/{name}")).shows(">Stopped<");
    }
    harness.books.never_ready(true);
    for name in ["tides", "winds"] {
        create(ada, &[("name", name)]);
    }
    let watch = "data-watch=\"/deployments/ada/winds/live?also=tides\"";
    ada.get("/deployments/ada").expect(200).shows(watch);
    for (query, status) in [("also=nothing".to_owned(), 404), (["also=scales"; 30].join("&"), 400)] {
        OpenStream::open(&harness.server, ada, &format!("{GAUGES}/live?{query}")).expect_status(status);
    }
    OpenStream::open(&harness.server, ada, &format!("{GAUGES}/live?{}", ["also=scales"; 29].join("&"))).expect_open();
    let bob = sign_up(&harness.server, "bob");
    OpenStream::open(&harness.server, &bob, &both).expect_status(404);
}

#[test]
fn it_is_shut_down_started_from_its_backup_and_deleted() {
    let harness = DeploymentPagesHarness::with_gauges();
    let ada = &harness.ada;
    let (shutdown, start, delete) =
        (format!("{GAUGES}/shutdown"), format!("{GAUGES}/start"), format!("{GAUGES}/delete"));
    ada.get(&delete).expect(200).shows("Shut the deployment down first");
    ada.get(&start).expect(303);
    let question = ada.get(&shutdown).expect(200).shows("currently $6.00 a month");
    ada.submit(&question, &shutdown, &[]).expect(303);
    let page = ada.settled(GAUGES).shows(">Stopped<").shows("Shut down").shows("Start deployment");
    assert!(!page.text.contains("id=\"connect\""), "nothing to connect to");
    ada.submit(&question, &shutdown, &[]).expect(422).shows("already stopping or stopped");
    ada.get(&format!("{GAUGES}/metrics")).expect(200).shows("No metrics");
    ada.get(&format!("{GAUGES}/databases")).expect(200).shows("Available once started");
    let backups =
        ada.get(&format!("{GAUGES}/backups")).expect(200).shows("At shutdown").shows("Start from this backup");
    let id = backups.text.split_once("<tr id=\"backup-").unwrap().1.split('"').next().unwrap().to_owned();
    let only = format!("{GAUGES}/backups/{id}/delete");
    let question = ada.get(&only).expect(200);
    ada.submit(&question, &only, &[]).expect(422).shows("only backup");

    let page = ada.get(&format!("{start}?backup_id={id}")).expect(200).shows(">$6.00<");
    let mut size = vec![
        ("backup_id", id.as_str()),
        ("instance_type_id", "local.medium"),
        ("volume_type_id", "local.standard"),
        ("volume_size_gb", "10"),
    ];
    size.push(("step", "price"));
    ada.submit(&page, &start, &size).expect(200).shows(">$51.00<");
    size.pop();
    let agree = ada.submit(&page, &start, &size).expect(200).shows("Start ada/gauges for $51.00 a month?");
    let agree = agree.shows(&format!("Backup {id}"));
    let other = [("step", "start"), ("agreed", "0")];
    ada.submit(&agree, &start, &other).expect(200).shows("The price has changed.");
    ada.get(GAUGES).expect(200).shows(">Stopped<");
    let mut bad = size.clone();
    bad[3].1 = "9999";
    ada.submit(&page, &start, &bad).expect(422).shows("id=\"volume_size_gb-error\"");
    ada.submit(&agree, &start, &[("step", "start")]).expect(303);
    ada.settled(GAUGES).shows(">Started<").shows("medium, 2 CPU");

    let question = ada.get(&shutdown).expect(200);
    ada.submit(&question, &shutdown, &[]).expect(303);
    ada.settled(GAUGES).shows(">Stopped<");
    let page = ada.get(&delete).expect(200);
    ada.submit(&page, &delete, &[("name", "gauges")])
        .expect(422)
        .shows("Nothing was deleted. Type ada/gauges to confirm.");
    let gone = ada.submit(&page, &delete, &[("name", "ada/gauges")]).expect(303);
    ada.follow(&gone).expect(200).shows("Its costs stay in your usage reports");
    ada.get(GAUGES).expect(404);
    ada.get("/settings/usage").expect(200).shows(">gauges<");
}

#[test]
fn data_whose_final_backup_fails_is_discarded_by_its_owner() {
    let harness = DeploymentPagesHarness::with_gauges();
    let ada = &harness.ada;
    harness.books.refuse_snapshot(Some("the copy is damaged"));
    let shutdown = format!("{GAUGES}/shutdown");
    let question = ada.get(&shutdown).expect(200);
    ada.submit(&question, &shutdown, &[]).expect(303);
    wait_for("the failed backup", AMPLE, || {
        let page = ada.get(GAUGES).expect(200);
        if page.text.contains("the final backup failed") { Ok(()) } else { Err(page.text) }
    });
    let discard = format!("{GAUGES}/discard");
    let settings = ada.get(&format!("{GAUGES}/settings")).expect(200);
    assert!(settings.text.contains(&format!("href=\"{discard}\"")), "{}", settings.text);
    let page = ada.get(&discard).expect(200);
    ada.submit(&page, &discard, &[("name", "ada/gauges")])
        .expect(422)
        .shows("Nothing was discarded. Type gauges to confirm.");
    let sent = ada.submit(&page, &discard, &[("name", "gauges")]).expect(303);
    ada.follow(&sent).expect(200).shows("removed without a backup");
    ada.settled(GAUGES).shows(">Stopped<");
    ada.get(&format!("{GAUGES}/logs")).expect(200).shows("event=data_discarded by=ada");
    ada.submit(&page, &discard, &[("name", "gauges")]).expect(422).shows("removed already");
}

#[test]
fn why_it_does_not_come_up_is_shown_as_text() {
    let harness = DeploymentPagesHarness::open();
    harness.books.refuse_start(Some("no room for <script>alert(1)</script>"));
    super::create(&harness.ada, &[("name", "gauges")]);
    let page = wait_for("the error", AMPLE, || {
        let page = harness.ada.get(GAUGES).expect(200);
        assert!(!page.text.contains("<script>alert"), "{}", page.text);
        if page.text.contains("Last error") { Ok(page) } else { Err(page.text) }
    });
    page.shows("no room for &#60;script&#62;");
}
