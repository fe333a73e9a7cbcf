//! What a deployment's pages show: URLs, databases, logs, metrics, cost.

use branchyard_deployments::ports::{Sample, Series};
use branchyard_domain::values::Timestamp;

use super::super::database;
use super::{DeploymentPagesHarness, GAUGES};

#[test]
fn clients_are_told_how_to_connect_and_a_token_is_shown_once() {
    let harness = DeploymentPagesHarness::with_gauges();
    let ada = &harness.ada;
    let url = format!("{}/api/v1/deployments/ada/gauges/sql/", harness.server.address());
    let page = ada.get(GAUGES).expect(200).shows(&format!("<code id=\"url\">{url}</code>"));
    let page =
        page.shows("@libsql/client").shows("libsql.connect").shows("new_remote").shows(&format!("{url}v2/pipeline"));
    let made = ada.submit(&page, &format!("{GAUGES}/tokens"), &[]).expect(200);
    assert_eq!(made.headers["cache-control"], "no-store");
    let secret = made.value_of("token-secret");
    assert!(secret.starts_with("hsat.v1."), "{secret}");
    for path in [GAUGES, "/settings/tokens"] {
        assert!(!ada.get(path).expect(200).text.contains(&secret), "{path}");
    }
    ada.get("/settings/tokens").expect(200).shows("Deployment ada/gauges");
    let client = reqwest::blocking::Client::builder().no_proxy().build().unwrap();
    let seen = client.get(format!("{}/api/v1/deployments/ada/gauges", harness.server.address())).bearer_auth(&secret);
    assert_eq!(seen.send().unwrap().status(), 200);
}

#[test]
fn databases_are_added_cloned_and_deleted() {
    let harness = DeploymentPagesHarness::with_gauges();
    let ada = &harness.ada;
    database(&harness.server, ada, "ada");
    let path = format!("{GAUGES}/databases");
    let page = ada.get(&path).expect(200).shows(">Default<").shows("/sql/db/gauges/");
    ada.submit(&page, &path, &[("name", "more")]).expect(303);
    // Without a name, a clone gets the name of its source.
    ada.submit(&page, &path, &[("name", ""), ("from", "ada/rivers"), ("ref", "main")]).expect(303);
    let page = ada.get(&path).expect(200).shows("/sql/db/more/").shows("/sql/db/rivers/");
    ada.submit(&page, &path, &[("name", "MORE")]).expect(422).shows("already exists");
    ada.submit(&page, &path, &[("name", "")]).expect(422).shows("id=\"name-error\"");
    ada.submit(&page, &path, &[("name", "x"), ("from", "bob/hidden")]).expect(422).shows("that you can read");
    let refused = ada.submit(&page, &path, &[("name", "<img src=x>"), ("from", "\"><svg>/y")]).expect(422);
    assert!(!refused.text.contains("<img src=x") && !refused.text.contains("><svg>"), "{}", refused.text);
    let delete = format!("{path}/more/delete");
    let question = ada.get(&delete).expect(200).shows("Delete database more?");
    ada.submit(&question, &delete, &[]).expect(303);
    ada.get(&delete).expect(404);
    let of_default = format!("{path}/gauges/delete");
    let question = ada.get(&of_default).expect(200);
    ada.submit(&question, &of_default, &[]).expect(422).shows("is deleted with the deployment");
}

#[test]
fn logs_are_paged_filtered_and_shown_as_text() {
    let harness = DeploymentPagesHarness::with_gauges();
    let (ada, instance) = (&harness.ada, harness.instance());
    let path = format!("{GAUGES}/logs");
    ada.get(&path).expect(200).shows("INFO ready");
    for number in 0..150 {
        harness.books.log(instance, &format!("INFO line {number:03}"));
    }
    harness.books.log(instance, "ERROR \"><script>alert(1)</script> & <b>bold</b>");
    let page = ada.get(&path).expect(200).shows("line 149").shows("class=\"is-error\"");
    assert!(!page.text.contains("<script>alert") && !page.text.contains("<b>bold"), "{}", page.text);
    let link = |page: &str, id: &str| {
        let (before, _) = page.split_once(&format!("\" id=\"{id}\"")).unwrap_or_else(|| panic!("no link {id}"));
        before.rsplit_once("href=\"").unwrap().1.replace("&#38;", "&")
    };
    let older = ada.get(&link(&page.text, "older")).expect(200).shows("INFO ready").shows("line 050");
    assert!(!older.text.contains("line 051") && !older.text.contains("id=\"older\""), "{}", older.text);
    let newer = ada.get(&link(&older.text, "newer")).expect(200).shows("line 051");
    assert!(!newer.text.contains("line 050"), "{}", newer.text);
    // The in-memory provisioner logs one line per second, from the start of the epoch.
    let window = ada.get(&format!("{path}?from=1970-01-01T00:02&until=1970-01-01T00:02")).expect(200);
    assert!(window.text.contains("line 119") && !window.text.contains("line 118"), "{}", window.text);
    ada.get(&format!("{path}?from=2030-01-01T00:00")).expect(200).shows("Nothing was logged in this period");
    let refused = ada.get(&format!("{path}?from=%22%3E%3Cscript%3Ealert(1)&until=x")).expect(200).shows("in UTC");
    assert!(!refused.text.contains("<script>alert"), "{}", refused.text);
    ada.get(&format!("{path}?from=2026-01-02T00:00&until=2026-01-01T00:00"))
        .expect(200)
        .shows("The start must be before the end");
    ada.get(&format!("{path}?older=junk&newer=1")).expect(200).shows("line 149");
    ada.get(&format!("{path}?instance=00000000-0000-7000-8000-000000000000")).expect(404);
}

#[test]
fn metrics_are_drawn_and_told_in_numbers() {
    let harness = DeploymentPagesHarness::with_gauges();
    let (ada, instance) = (&harness.ada, harness.instance());
    let path = format!("{GAUGES}/metrics");
    let now = harness.server.hub().now();
    let mut sample = Sample::default();
    for (back, percent) in [(600, 20.0), (585, 60.0), (300, 40.0)] {
        sample.set(Series::CpuUsed, percent);
        sample.set(Series::Resident, 3.0 * 1_048_576.0);
        let at = Timestamp::from_seconds((now.as_seconds() - back).div_euclid(15) * 15);
        harness.server.measured(instance, &[(at, sample.clone())]);
    }
    let page =
        ada.get(&path).expect(200).shows("role=\"img\"").shows("<title id=\"cpu-title\">CPU Utilization</title>");
    let page = page.shows("between 20% and 60%").shows("<td>40%</td>").shows("3.0 MiB");
    let cpu = &page.text[page.text.find("id=\"cpu-desc\"").unwrap()..];
    let cpu = &cpu[..cpu.find("</svg>").unwrap()];
    let line = cpu.rsplit_once("series-0").unwrap().1;
    assert_eq!(line.matches('M').count(), 2, "a gap breaks the line: {line}");
    page.shows("No data for this period");
    let one = ada.get(&format!("{path}/cpu?window=day")).expect(200).shows("Values, newest first");
    one.shows("<td class=\"number\">40%</td>");
    ada.get(&format!("{path}/cpu?window=%3Cb%3E")).expect(200).shows("Values, newest first");
    ada.get(&format!("{path}/diskio")).expect(200).shows("No data for this period");
    ada.get(&format!("{path}/nonsense")).expect(404);
}

#[test]
fn cost_is_shown_to_the_billionth_and_usage_over_all_owners() {
    let harness = DeploymentPagesHarness::with_gauges();
    let ada = &harness.ada;
    let page = ada.get(&format!("{GAUGES}/cost")).expect(200).shows("Compute, local.small").shows("$0.006849320");
    let page = page.shows("Storage, local.standard").shows("$0.001369863").shows("In progress");
    assert!(!page.text.contains("id=\"later\""), "the month after is yet to come");
    let earlier = page.text.split_once("\" id=\"earlier\"").unwrap().0.rsplit_once("href=\"").unwrap().1.to_owned();
    ada.get(&earlier).expect(200).shows("No usage this month.").shows("id=\"later\"");
    for month in ["2999-01", "nonsense", "%3Cscript%3E"] {
        ada.get(&format!("{GAUGES}/cost?month={month}")).expect(200).shows("Compute, local.small");
    }
    let page = ada.get("/settings/usage").expect(200).shows("$6.00 of $100.00 a month committed");
    page.shows("href=\"/deployments/ada/gauges\"").shows("value=\"6\"");
    ada.get("/settings/usage?month=2020-02").expect(200).shows("Usage in February 2020");
}
