"""How to load an exported model: a few lines that run as they are."""

from __future__ import annotations

#: The `Auto` class of each kind of model, and the pipeline that shows what it does.
_CLASSES = {
    "decoder": "AutoModelForCausalLM",
    "encoder": "AutoModelForMaskedLM",
    "encoder-decoder": "AutoModelForSeq2SeqLM",
    "classifier": "AutoModelForSequenceClassification",
    "states": "AutoModel",
}


def usage_section(kind_of_file: str, kind: str, *, file: str, answers: bool) -> str:
    """The section "How to load it".

    Args:
        kind_of_file: "transformers", "own", "gguf" or "onnx".
        kind: the kind of model.
        file: the file of the weights, for formats that you load by a file.
        answers: whether the model learnt to answer.
    """
    match kind_of_file:
        case "gguf":
            text = _gguf(file, answers=answers)
        case "onnx":
            text = _onnx(file, kind)
        case _:
            text = _transformers(kind, own_form=kind_of_file == "own", answers=answers)
    return f"## How to load it\n\n{text}"


def _transformers(kind: str, *, own_form: bool, answers: bool) -> str:
    name = _CLASSES[kind]
    lines = [
        *(["import pellucid.transformers  # registers the model", ""] if own_form else []),
        f"from transformers import {name}, AutoTokenizer",
        "",
        f'model = {name}.from_pretrained("FOLDER")',
        'tokenizer = AutoTokenizer.from_pretrained("FOLDER")',
        *_example(kind, answers=answers),
    ]
    code = "```python\n" + "\n".join(lines) + "\n```"
    if not own_form:
        return code
    return (
        "No class of `transformers` holds this model. It needs `pip install pellucid "
        f"transformers`, and the first line below. It runs no code from this folder.\n\n{code}"
    )


def _example(kind: str, *, answers: bool) -> list[str]:
    if kind == "decoder" and answers:
        return [
            'chat = [{"role": "user", "content": "What is this?"}]',
            "ids = tokenizer.apply_chat_template(",
            '    chat, add_generation_prompt=True, return_tensors="pt", return_dict=True',
            ")",
            "print(tokenizer.decode(model.generate(**ids)[0]))",
        ]
    if kind in ("decoder", "encoder-decoder"):
        return [
            'inputs = tokenizer("Once upon a time", return_tensors="pt")',
            "print(tokenizer.decode(model.generate(**inputs)[0]))",
        ]
    return [
        'inputs = tokenizer("Once upon a time", return_tensors="pt")',
        "print(model(**inputs))",
    ]


def _gguf(file: str, *, answers: bool) -> str:
    chat = "-cnv " if answers else "-no-cnv "
    return (
        "With llama.cpp, or with Ollama (see `Modelfile`):\n\n"
        f'```sh\nllama-cli -m {file} {chat}-p "Once upon a time"\n'
        "ollama create my-model -f Modelfile\n```"
    )


def _onnx(file: str, kind: str) -> str:
    inputs = {
        "encoder-decoder": '{"input_ids": ids, "attention_mask": mask, "decoder_input_ids": ids}',
        "decoder": '{"input_ids": ids}',
    }.get(kind, '{"input_ids": ids, "attention_mask": mask}')
    mask = "" if kind == "decoder" else "mask = np.ones_like(ids)\n"
    return (
        "```python\nimport numpy as np\nimport onnxruntime\nfrom tokenizers import Tokenizer\n\n"
        'tokenizer = Tokenizer.from_file("tokenizer.json")\n'
        'ids = np.array([tokenizer.encode("Once upon a time").ids])\n'
        f'{mask}session = onnxruntime.InferenceSession("{file}")\n'
        f"outputs = session.run(None, {inputs})\n```"
    )
