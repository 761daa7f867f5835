"""Three examples of every command, which its help begins with; tests read and run them."""

EXAMPLES: dict[str, tuple[str, str, str]] = {
    "train": (
        "pellucid train",
        "pellucid train my.txt --minutes 5 --out runs/my-run",
        "pellucid train --resume runs/my-run",
    ),
    "distill": (
        "pellucid distill runs/my-run my.txt",
        "pellucid distill runs/my-run my.txt --into nano --out runs/small",
        "pellucid distill runs/my-run my.txt --steps 500 --seed 1",
    ),
    "check": (
        "pellucid check nano",
        "pellucid check runs/my-run",
        "pellucid check my.toml my.txt --fail-on fault",
    ),
    "diagnose": (
        "pellucid diagnose runs/my-run",
        "pellucid diagnose trainer_state.json",
        "pellucid diagnose runs/my-run --fail-on fault --json",
    ),
    "generate": (
        "pellucid generate runs/my-run 'Once upon a time'",
        "pellucid generate runs/my-run 'Once upon a time' --temperature 0.6 --top-k 50 --seed 1",
        "pellucid generate runs/my-run 'Once upon a time' --greedy --max-new-tokens 20",
    ),
    "translate": (
        "pellucid translate runs/pairs 'a red house'",
        "pellucid translate runs/pairs 'a red house' --beams 4",
        "pellucid translate runs/pairs 'a red house' --json",
    ),
    "fill": (
        "pellucid fill runs/masked 'The capital of France is <mask>.'",
        "pellucid fill runs/masked 'The <mask> sat on the mat.' --top 3",
        "pellucid fill runs/masked 'The <mask> sat on the mat.' --json",
    ),
    "embed": (
        "pellucid embed runs/my-run 'a first text' 'a second text'",
        "pellucid embed runs/my-run --file texts.txt --out vectors.npy",
        "pellucid embed runs/my-run --file texts.txt --like 'what to look for'",
    ),
    "classify": (
        "pellucid classify runs/classes 'You have won a prize, call now'",
        "pellucid classify runs/classes --file texts.txt --all",
        "pellucid classify runs/classes --file texts.txt --json",
    ),
    "answer": (
        "pellucid answer runs/tuned 'Name three colours.'",
        "pellucid answer runs/tuned 'Name three colours.' --temperature 0.7 --seed 2",
        "pellucid answer runs/tuned 'Name three colours.' --json",
    ),
    "chat": (
        "pellucid chat runs/tuned",
        "pellucid chat runs/tuned --system 'You answer in one sentence.'",
        "pellucid chat runs/tuned --temperature 0.3 --seed 1",
    ),
    "explain": (
        "pellucid explain runs/my-run 'The cat sat on the mat'",
        "pellucid explain runs/my-run 'The cat sat on the mat' --why",
        "pellucid explain runs/my-run 'The cat sat on the mat' --html page.html",
    ),
    "mcp": (
        "pellucid mcp",
        "pellucid mcp --root runs",
        "pellucid mcp --root . --allow-training",
    ),
    "serve": (
        "pellucid serve runs/my-run",
        "pellucid serve runs",
        "pellucid serve runs/my-run --port 8080 --weights bfloat16",
    ),
    "score": (
        "pellucid score runs/my-run 'The cat sat on the mat'",
        "pellucid score runs/my-run 'The cat sat on the' --next --top 5",
        "pellucid score runs/my-run 'The cat sat on the mat' --json",
    ),
    "evaluate": (
        "pellucid evaluate runs/my-run other.txt",
        "pellucid evaluate runs/my-run other.txt --weights int8",
        "pellucid evaluate runs/my-run other.txt --json",
    ),
    "data": (
        "pellucid data list",
        "pellucid data get tinyshakespeare",
        "pellucid data report my.txt",
    ),
    "tokenizer": (
        "pellucid tokenizer train my.txt --vocab-size 512 --out tokenizer.json",
        "pellucid tokenizer show 'Hello, lowering' --tokenizer runs/my-run",
        "pellucid tokenizer compare my.txt --vocab-size 512",
    ),
    "presets": (
        "pellucid presets list",
        "pellucid presets diff gpt2 gpt2-medium",
        "pellucid presets count nano",
    ),
    "import": (
        "pellucid import openai-community/gpt2 runs/gpt2",
        "pellucid import path/to/model runs/mine",
        "pellucid import stories260K.bin runs/stories --tokenizer tok512.bin",
    ),
    "export": (
        "pellucid export runs/my-run my-model",
        "pellucid export runs/my-run my-gguf --format gguf --type q8_0",
        "pellucid export runs/my-run my-onnx --format onnx",
    ),
    "push": (
        "pellucid push runs/my-run my-name/my-model",
        "pellucid push runs/my-run my-name/my-model --public",
        "pellucid push runs/my-run my-name/my-model --json",
    ),
    "draw": (
        "pellucid draw nano",
        "pellucid draw gpt2 --svg gpt2.svg",
        "pellucid draw gpt2 --set model.decoder.residual=PostNorm",
    ),
    "attach": (
        "pellucid attach runs/my-run",
        "pellucid attach runs/my-run --json",
        "pellucid attach runs/my-run runs/another",
    ),
    "report": (
        "pellucid report runs/my-run",
        "pellucid report runs/my-run --out report.html",
        "pellucid report runs/my-run --json",
    ),
    "vitals": (
        "pellucid vitals runs/my-run",
        "pellucid vitals runs/my-run --why",
        "pellucid vitals runs/my-run --json",
    ),
    "verify-resume": (
        "pellucid verify-resume runs/my-run",
        "pellucid verify-resume runs/rewarded --reward rewards:short",
        "pellucid verify-resume runs/my-run --json",
    ),
    "compare": (
        "pellucid compare A.toml B.toml my.txt --seeds 5 --steps 600",
        "pellucid compare nano my.toml --minutes 5",
        "pellucid compare A.toml B.toml my.txt --tune learning_rate --trials 10",
    ),
    "sweep": (
        "pellucid sweep space.toml my.toml my.txt --trials 40 --steps 600",
        "pellucid sweep space.toml nano my.txt --trials 10 --steps 100",
        "pellucid sweep space.toml my.toml my.txt --trials 40 --steps 600 --json",
    ),
    "scaling": (
        "pellucid scaling nano my.txt --sizes 100k,200k,400k,800k --steps 400",
        "pellucid scaling my.toml my.txt --sizes 100k,200k,400k,800k --steps 400 --budget 30",
        "pellucid scaling nano my.txt --sizes 100k,200k,400k --steps 200 --json",
    ),
    "plan": (
        "pellucid plan gpt2 --devices 8 --device-kind h100",
        "pellucid plan llama3-8b --devices 64 --device-kind h100 --shard full --recompute full",
        "pellucid plan llama2-7b --device-kind h100",
    ),
    "runs": (
        "pellucid runs",
        "pellucid runs my-runs --sort best_loss --where state=finished",
        "pellucid runs --json",
    ),
    "experiment": (
        "pellucid experiment list",
        "pellucid experiment softmax-saturation --quick",
        "pellucid experiment muon-against-adamw --quick --out muon.html",
    ),
    "equations": (
        "pellucid equations",
        "pellucid equations softmax",
        "pellucid equations why divide by sqrt d",
    ),
    "quiz": (
        "pellucid quiz",
        "pellucid quiz 4",
        "pellucid quiz --json",
    ),
    "learn": (
        "pellucid learn list",
        "pellucid learn attention --run runs/my-run",
        "pellucid learn build my-model",
    ),
    "doctor": (
        "pellucid doctor",
        "pellucid doctor --json",
        "pellucid --color never doctor",
    ),
}
