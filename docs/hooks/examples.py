"""Three uses of a hook: CI, an issue tracker, automatic releases. Settings come from the environment."""
import json, os, subprocess, urllib.request

from receiver import serve


def call(url, body=None, token=None):
    """Sends a GET request, or a POST request with a body, and returns the answer. An answer of 400 and above raises."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers | ({"content-type": "application/json"} if data else {}))
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read()


def check(push):
    """CI: runs a command for each new head of a branch."""
    where = {"HEAD": push["head"], "PREV": push["prev"], "BRANCH": push["ref"].removeprefix("refs/heads/")}
    subprocess.run(os.environ["CI_COMMAND"], shell=True, env=os.environ | where)


def issue(pull):
    """Issue tracker: a ticket to review each pull request that is opened."""
    title = f"Review pull request {pull['pullID']} of {pull['author']}: {pull['fromBranch']} to {pull['toBranch']}"
    call(os.environ["TRACKER"], {"title": title})


def release(pull):
    """Automatic releases: what is merged into main is published, named by its pull request."""
    database = f"{os.environ['YARD']}/api/v2/databases/{pull['repository']['owner']}/{pull['repository']['name']}"
    token = os.environ["YARD_TOKEN"]  # of a user who may write to the database
    # The payload says that something was merged. What is on the branch now, the API says.
    head = json.loads(call(f"{database}/branches/main", token=token))["data"]["head_commit_sha"]
    tag = f"pull-{pull['pullID']}"
    wanted = {"tag": tag, "title": f"Pull request {pull['pullID']}", "commit_sha": head, "create_tag_if_not_exists": True}
    call(f"{database}/releases", wanted, token)


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
