// Claims an item and prints it: node claim.mjs URL CAMPAIGN CLAIMANT

// claim returns the claim, or the problem with the reason. It repeats the request while that can help.
async function claim(url, campaign, claimant) {
  for (let wait = 1; wait < 32; wait *= 2) {
    const answer = await fetch(`${url}/campaigns/${campaign}/claims`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ claimant }),
    }).catch(() => undefined); // no connection
    if (answer && answer.status < 500 && answer.status !== 429) {
      return answer.json();
    }
    const seconds = Math.max(wait, answer?.headers.get("Retry-After") ?? 0);
    await new Promise((done) => setTimeout(done, seconds * (1 + Math.random()) * 1000));
  }
  throw new Error("the service is busy; the same request later is safe");
}

const [url, campaign, claimant] = process.argv.slice(2);
const answer = await claim(url, campaign, claimant);
console.log(answer.item ?? `${answer.title}: ${answer.detail}`);
