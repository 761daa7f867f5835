"""The supported families of published models, by their `model_type`."""

from pellucid.checkpoints.huggingface.families.alibi import BLOOM, MPT
from pellucid.checkpoints.huggingface.families.bart import BART, MARIAN, MBART, PEGASUS
from pellucid.checkpoints.huggingface.families.bart_relatives import BLENDERBOT, M2M_100, PLBART
from pellucid.checkpoints.huggingface.families.cohere import COHERE, COHERE2
from pellucid.checkpoints.huggingface.families.ctrl import CTRL
from pellucid.checkpoints.huggingface.families.deepseek import DEEPSEEK_V2, DEEPSEEK_V3
from pellucid.checkpoints.huggingface.families.encoders.albert import ALBERT
from pellucid.checkpoints.huggingface.families.encoders.bert import (
    BERT,
    BERT_GENERATION,
    ERNIE_ENCODER,
)
from pellucid.checkpoints.huggingface.families.encoders.deberta import DEBERTA_V2
from pellucid.checkpoints.huggingface.families.encoders.eurobert import EUROBERT
from pellucid.checkpoints.huggingface.families.encoders.modernbert import MODERNBERT
from pellucid.checkpoints.huggingface.families.encoders.mpnet import MPNET
from pellucid.checkpoints.huggingface.families.encoders.prenorm import (
    MEGATRON_BERT,
    ROBERTA_PRELAYERNORM,
    XLM_ROBERTA_XL,
)
from pellucid.checkpoints.huggingface.families.encoders.roberta import (
    CAMEMBERT,
    DATA2VEC_TEXT,
    DISTILBERT,
    ELECTRA,
    ROBERTA,
    XLM_ROBERTA,
)
from pellucid.checkpoints.huggingface.families.ernie4_5_moe import ERNIE_MOE
from pellucid.checkpoints.huggingface.families.fairseq import BIOGPT, XGLM
from pellucid.checkpoints.huggingface.families.falcon import FALCON
from pellucid.checkpoints.huggingface.families.gemma2 import GEMMA2, VAULTGEMMA
from pellucid.checkpoints.huggingface.families.glm4_moe import DOTS1, GLM4_MOE
from pellucid.checkpoints.huggingface.families.gpt2 import GPT2, GPT_BIGCODE, OPENAI_GPT
from pellucid.checkpoints.huggingface.families.gpt_neo import GPT_NEO
from pellucid.checkpoints.huggingface.families.gpt_neox import GPT_NEOX
from pellucid.checkpoints.huggingface.families.gpt_oss import GPT_OSS
from pellucid.checkpoints.huggingface.families.gptj import CODEGEN, GPTJ
from pellucid.checkpoints.huggingface.families.granite import GRANITE, GRANITEMOE, GRANITEMOESHARED
from pellucid.checkpoints.huggingface.families.hunyuan import HUNYUAN
from pellucid.checkpoints.huggingface.families.layers_in_turn import (
    CWM,
    EXAONE4,
    GEMMA3,
    MINISTRAL,
    OLMO3,
    SMOLLM3,
)
from pellucid.checkpoints.huggingface.families.llama import (
    EXAONE,
    INTERNLM3,
    LLAMA,
    MISTRAL,
    OLMO2,
    QWEN2,
    QWEN3,
)
from pellucid.checkpoints.huggingface.families.mixtral import (
    FLEX_OLMO,
    MIXTRAL,
    OLMOE,
    QWEN2_MOE,
    QWEN3_MOE,
)
from pellucid.checkpoints.huggingface.families.opt import OPT
from pellucid.checkpoints.huggingface.families.phi import PHI, PHI3
from pellucid.checkpoints.huggingface.families.refused import REFUSED
from pellucid.checkpoints.huggingface.families.relatives import (
    ARCEE,
    ERNIE,
    GEMMA,
    GLM,
    GLM4,
    HELIUM,
    JAIS2,
    NEMOTRON,
    OLMO,
    SEED_OSS,
    STABLELM,
    STARCODER2,
)
from pellucid.checkpoints.huggingface.families.t5 import MT5, T5, UMT5
from pellucid.checkpoints.huggingface.family import Family

#: If several families fit a model, pellucid writes it as the first.
FAMILIES: dict[str, Family] = {
    family.model_type: family
    for family in (
        LLAMA,
        GPT2,
        QWEN2,
        QWEN3,
        MISTRAL,
        MINISTRAL,
        GPT_NEOX,
        OLMO2,
        GEMMA2,
        BERT,
        T5,
        MT5,
        BART,
        MBART,
        MARIAN,
        PEGASUS,
        BLENDERBOT,
        BLOOM,
        MPT,
        GPT_NEO,
        OPT,
        FALCON,
        COHERE,
        GEMMA3,
        OLMO3,
        SMOLLM3,
        EXAONE4,
        MIXTRAL,
        QWEN2_MOE,
        QWEN3_MOE,
        OLMOE,
        GLM4_MOE,
        GPT_OSS,
        GRANITEMOE,
        ERNIE_MOE,
        COHERE2,
        DEEPSEEK_V2,
        DEEPSEEK_V3,
        GEMMA,
        GRANITE,
        PHI,
        PHI3,
        GPTJ,
        CODEGEN,
        STARCODER2,
        STABLELM,
        NEMOTRON,
        OLMO,
        ARCEE,
        HELIUM,
        ERNIE,
        SEED_OSS,
        GLM,
        GLM4,
        ROBERTA,
        XLM_ROBERTA,
        CAMEMBERT,
        DISTILBERT,
        ELECTRA,
        ALBERT,
        MPNET,
        DEBERTA_V2,
        MODERNBERT,
        ERNIE_ENCODER,
        BERT_GENERATION,
        GPT_BIGCODE,
        CWM,
        DOTS1,
        FLEX_OLMO,
        HUNYUAN,
        GRANITEMOESHARED,
        EUROBERT,
        MEGATRON_BERT,
        ROBERTA_PRELAYERNORM,
        DATA2VEC_TEXT,
        XLM_ROBERTA_XL,
        UMT5,
        PLBART,
        M2M_100,
        XGLM,
        BIOGPT,
        OPENAI_GPT,
        EXAONE,
        JAIS2,
        VAULTGEMMA,
        INTERNLM3,
        CTRL,
    )
}

__all__ = ["FAMILIES", "REFUSED"]
