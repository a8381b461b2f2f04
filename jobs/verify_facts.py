"""Ask a model about facts that contradict each other and wait: what a scheduler runs every night.

python jobs/verify_facts.py URI [--model NAME] [--base-url URL] [--max-tokens N] [--dry-run]

The key is taken from OPENAI_API_KEY. Without a model it reports what waits.
"""

import argparse
import json
import os
import sys

import ailake
from ailake.maintenance import FactVerifyJob
from ailake.providers import ChatModel, OpenAIFactVerifier


def main() -> None:
    """Run the job, print what it decided as one JSON line, and exit 1 where some cases failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("uri", nargs="?", default=os.environ.get("AILAKE_URI"))
    parser.add_argument("--model")
    parser.add_argument("--base-url", default=os.environ.get("OPENAI_BASE_URL"))
    parser.add_argument("--max-tokens", type=int)
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    if not options.uri:
        parser.error("give the lake's URI, or set AILAKE_URI")
    chat = ChatModel(options.model, base_url=options.base_url) if options.model else None
    verifier = OpenAIFactVerifier(chat) if chat else None
    with ailake.connect(options.uri, create=False) as lake:
        job = FactVerifyJob(lake, verifier=verifier, max_tokens=options.max_tokens)
        report = job.run(dry_run=options.dry_run)
    done = {"asked": report.asked, "failed": len(report.failed), "waiting": len(report.waiting)}
    print(json.dumps({"job": "verify_facts", **done, "tokens": report.usage.total}))
    sys.exit(1 if report.failed else 0)


if __name__ == "__main__":
    main()
