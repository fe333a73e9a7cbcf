"""Three uses of a hook: CI, an issue tracker, automatic releases. Settings come from the environment."""
import json, os, subprocess, urllib.request

from receiver import serve


def post(url, body, token=None):
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
    return urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers))


def check(push):
    """CI: runs a command for each new head of a branch."""
    where = {"HEAD": push["head"], "PREV": push["prev"], "BRANCH": push["ref"].removeprefix("refs/heads/")}
    subprocess.run(os.environ["CI_COMMAND"], shell=True, env=os.environ | where)


def issue(pull):
    """Issue tracker: a ticket to review each pull request that is opened."""
    title = f"Review pull request {pull['pullID']} of {pull['author']}: {pull['fromBranch']} to {pull['toBranch']}"
    post(os.environ["TRACKER"], {"title": title})


def release(pull):
    """Automatic releases: what is merged into main is published, named by its pull request."""
    database = f"{os.environ['YARD']}/api/v2/databases/{pull['repository']['owner']}/{pull['repository']['name']}"
    # The payload tells that something was merged; what is on the branch now is the API's to say.
    head = json.load(urllib.request.urlopen(f"{database}/branches/main"))["data"]["head_commit_sha"]
    tag = f"pull-{pull['pullID']}"
    wanted = {"tag": tag, "title": f"Pull request {pull['pullID']}", "commit_sha": head, "create_tag_if_not_exists": True}
    post(f"{database}/releases", wanted, os.environ["YARD_TOKEN"])


def handle(event):
    match event:
        case {"event_name": "push"}:
            check(event)
        case {"event_name": "pull_request", "action": "Opened"}:
            issue(event)
        case {"event_name": "pull_request", "action": "Merged", "toBranch": "main"}:
            release(event)


if __name__ == "__main__":
    serve(os.environ["HOOK_SECRET"], int(os.environ["PORT"]), handle)
