"""Which calls act, as rows of tables: by what is called, and by the client that a method is of."""

from __future__ import annotations

import re

from ratchet.wire.facts import EffectKind

_NAMED: tuple[tuple[EffectKind, str], ...] = (
    (
        "mail",
        r"sendmail|send_message$(?=.*smtp)|messages\.(?:send|modify|batchModify|batchDelete|trash|untrash|insert|import_?)$|drafts\.(?:create|send|update)$|send_(?:\w+_)?e?mail|sendMail|[eE]mails\.send|GmailCreateDraft|GmailSend|GmailToolkit|GmailToolSpec|create_draft|send_raw_email|smtplib",
    ),
    (
        "payment",
        r"stripe\.|paypal|braintree|PaymentIntent|checkout\.sessions\.create|refunds?\.create|charges?\.create|submit_order$|create_(?:market|limit)_(?:\w+_)?order$|send(?:_raw)?_transaction$|sendRawTransaction$",
    ),
    (
        "shell",
        r"^subprocess\.\w+$|^os\.(?:system|popen|spawn\w*|posix_spawn\w*|exec[lv]\w*|startfile|kill\w*)$|create_subprocess_|child_process|execSync|spawnSync|execFileSync|^execa|ShellTool|BashTool|^pty\.spawn|^pexpect\.|paramiko|commands\.run$|MCPServerStdio|StdioServerParam\w*|StdioClientTransport|stdio_client$|[sS]andbox\.\w*(?:exec|run)\w*$|exec_command|exec_run$|containers\.(?:run|create|stop|remove|kill)$|Deno\.Command$|Bun\.spawn(?:Sync)?$|run_shell_command",
    ),
    (
        "exec",
        r"^(?:builtins\.)?(?:exec|eval)$|PythonREPL|PythonAstREPL|(?:^|\.)(?:run_code|runCode|code_run|execCell|exec_cell)$|CodeInterpreter|code_interpreter|codeInterpreter|codeExecution_?|E2B|e2b|runIn(?:New|This)?Context|(?:CommandLine|Docker|Jupyter|Python|Local|Remote)\w*CodeExecutor|CodeExecut(?:or|ion)\w*$|LocalPython(?:Interpreter|Executor)$|create_(?:pandas_dataframe|csv|python|spark_dataframe)_agent$|PandasQueryEngine|(?:dspy\S*)\.(?:ProgramOfThought|CodeAct|PythonInterpreter)$|smolagents\.(?:\w+\.)*CodeAgent$|PythonAgent$|execute_cell$|ExecutePreprocessor",
    ),
    (
        "delete",
        r"^os\.(?:remove|unlink|rmdir|removedirs)$|shutil\.rmtree|\.unlink$|\.rmdir$|send2trash|(?:fs\.|fsp\.|promises\.|^)(?:unlink|rm|rmdir)(?:Sync)?$|Deno\.remove(?:Sync)?$|\.delete_\w+$|DeleteFileTool|(?:files|assistants|threads|agents|vector_stores|collections?|objects?|blobs?|drafts|events|users?)\.delete$",
    ),
    (
        "post",
        r"(?:^|\.|_)(?:requests|httpx|session|axios|client|http|got|ky|superagent|\$fetch|ofetch)\.(?:\w+\.)?(?:post|put|patch|delete)$|requests\.request$|chat_postMessage|chat_update$|files_upload\w*$|chat\.postMessage|create_tweet|twilio\w*\.(?:\w+\.)*create$|\.(?:create_issue|create_pull|create_comment)$|events\.(?:insert|patch|update|move|quickAdd)$|SlackSend|send_webhook|telegram\w*\.(?:\w+\.)*send\w*$|langgraph_sdk\.\S*\.(?:create|update|update_state|delete|stream|wait|put_item)$|MCPServer(?:SSE|HTTP|StreamableH\w+)|(?:rudder\w*|analytics|posthog|mixpanel|amplitude|segment)\S*\.(?:track|capture|identify)$",
    ),
    (
        "post",  # Google's documents, sheets, files and videos; queues
        r"values\.(?:update|append|batchUpdate|clear)$|\.batchUpdate$|(?:spreadsheets|documents|presentations|permissions|labels|filters)\.(?:create|update|patch|delete)$|files\.(?:create|update|copy)$|(?:videos|comments|commentThreads|playlists|playlistItems)\.insert$|calendars\.(?:insert|update|patch)$|apply_async$|send_task$|basic_publish$",
    ),
    (
        "post",  # toolkits and servers of tools
        r"RequestsToolkit|Requests(?:Post|Put|Patch|Delete)\w*|(?:Slack|O365|GitHub|GitLab|Jira|Office365|Zapier|ClickUp|Twilio|Multion|Gradio)\w*(?:Toolkit|APIWrapper|ToolSpec)$|(?:GoogleCalendar|Slack|Notion|Requests|Zapier|Shopify|Jira|Discord)ToolSpec$|Composio\w*$|ArcadeToolManager|ZapierActionTool|HostedMCPTool|hostedMcpTool|MCPServerAdapter$|MultiServerMCPClient$|McpWorkbench$|MCPToolset$|MCPClient$|MCPConfiguration$|MCPTools$|MultiMCPTools$",
    ),
    (
        "file write",
        r"\.write_(?:text|bytes|pdf|image|html|videofile|audiofile|index|parquet)$|writeFile(?:Sync)?$|appendFile(?:Sync)?$|(?:writeJson|outputFile|outputJson)(?:Sync)?$|createWriteStream|^shutil\.(?:copy\w*|move|make_archive|chown)$|^os\.(?:makedirs|mkdir|rename|renames|replace|symlink|link|chmod|chown|truncate|mkfifo)$|\.to_(?:csv|json|excel|parquet|pickle|feather|hdf)$|\.savefig$|\.touch$|\.symlink_to$|FileWriterTool|WriteFileTool|WriteFile$|ApplyPatchTool|FileManagementToolkit|mkdirSync|\.mkdir$|\.save$|save_local$|dump_to_file|set_key$|\.persist$|shutil\.unpack_archive|\.extractall$|imwrite$|soundfile\.write$|wavfile\.write$|(?:^|\.)fs\S*\.(?:rename|copyFile|cp|symlink|truncate|chmod)(?:Sync)?$|Deno\.(?:write\w*|mkdir|rename|copyFile)(?:Sync)?$|Bun\.write$|\.files\.(?:write|makeDir|make_dir|rename)$|urlretrieve$|snapshot_download$|hf_hub_download$",
    ),
    (
        "database write",
        r"insert_(?:one|many)|update_(?:one|many)|replace_one|(?:delete|drop)_(?:one|many)$|find_one_and_(?:update|replace|delete)$|bulk_write$|add_documents|add_texts|add_embeddings|add_graph_documents|upsert_\w+$|from_documents|from_texts|\.upsert$|executemany|(?:session|db|tx)\.(?:add|add_all|commit|merge|bulk_\w+)$|(?:conn|connection|cursor|cur|con|cnx)\w*\.commit$|\.(?:create|drop)_all$|prisma\.\w+\.(?:create|update|delete|upsert)|\bdb\.(?:insert|update|delete)\b|(?<=\.)objects\.(?:\w+\.)*(?:create|update|delete|get_or_create|update_or_create|bulk_create|bulk_update)$|\.(?:from_?|table)\.(?:\w+\.)*(?:insert|update|upsert|delete)\b|(?:^|[._])store\.a?(?:put|delete)$|(?:^|[._])(?:memory|mem0)\w*\.(?:\w+\.)*(?:add|delete|update)$|(?:^|[._])collection\.(?:add|update|upsert|delete)$|(?:insert|update|delete|replace)(?:One|Many)$|find(?:One|ById)And\w+$|bulkWrite$|\.setex$|create_collection|create_index$|SQLAlchemySession|SQLiteSession|PersistentClient|\.to_sql$",
    ),
    (
        "database write",  # LangGraph's store and threads, DynamoDB, Firestore, Neo4j, vectors
        r"\bstore\.a?put$|(?:put|delete)Item$|(?:put|update|delete|batch_write)_item$|\bthreads\.(?:update\w*|delete)$|^(?:addDoc|setDoc|updateDoc|deleteDoc)$|\.(?:doc|document)\.(?:set|update|delete|create)$|execute_write$|executeWrite$|write_transaction$|writeTransaction$|addDocuments$|fromDocuments$|fromTexts$|addVectors$|insert_nodes$|upload_points$|upload_collection$|set_payload$|data\.insert(?:_many)?$|add_data_object$|SQLDatabaseToolkit$|QuerySQL\w*Tool$|create_sql_agent$|SQLDatabaseChain$|SQLDatabaseSequentialChain$|NL2SQLTool$|DatabaseToolSpec$",
    ),
    (
        "post",
        r"(?<!threads\.)\bruns\.create$"
        r"|@aws-sdk/(?!client-bedrock)[\w-]+\.(?:Put|Delete|Send|Publish|Update|Create|Start|Stop|Terminate|Run|Copy|Upload|Invoke)\w*(?:Command)?$",
    ),
    (
        "desktop",
        r"^pyautogui\.|^pydirectinput\.|^pynput\.|\bdesktop\.(?:\w*[cC]lick|write|press|drag|scroll|moveMouse)$|^webbrowser\.open|\.(?:click|fill|goto|send_keys|select_option|selectOption|set_input_files|setInputFiles|press_sequentially|pressSequentially|goBack|go_back)$|\bpage\.(?:act|type|press|check|hover)$|(?:keyboard|mouse)\.(?:type|press|click|move|down)$|ImageGrab|(?:^|\.)ComputerTool$|computerTool$|StagehandTool$|PlayWright\w*Toolkit$|PlaywrightToolSpec$|MultimodalWebSurfer$|browser_use\.(?:\w+\.)*Agent$",
    ),
)
"""Calls by the dotted name that is written, or by the outside name that it stands for."""

_READ: tuple[tuple[EffectKind, str], ...] = (
    (
        "database read",
        r"asyncpg\.|psycopg|create_engine|sqlite3\.connect|pymongo|MongoClient|[Pp]inecone|[Cc]hroma|redis|Neo4j|weaviate|qdrant|fetch(?:val|row|all|one)$|create_pool",
    ),
    (
        "web read",
        r"[Tt]avily|[Ff]irecrawl|[Ss]erper|Exa\b|Exa[A-Z]|DuckDuckGo|DDGS|ScrapeWebsite|WebSearchTool|SerpAPI|BraveSearch|(?:requests|httpx|aiohttp|axios|session)\w*\.get$|^fetch$|wikipedia|arxiv|urlopen",
    ),
)

_TOOLKITS: tuple[tuple[EffectKind, str], ...] = (
    ("mail", r"Email|Resend|Gmail|Mailgun|AWSSES|Outlook"),
    ("shell", r"Shell|Docker|AWSLambda|Airflow"),
    ("exec", r"Python|E2B|Daytona"),
    ("file write", r"File|LocalFileSystem|FileGeneration"),
    ("database write", r"SQL|DuckDb|Postgres|Mem0|Zep|Memori|Neo4j|BigQuery|Redshift"),
    ("desktop", r"Browserbase|WebBrowser"),
    (
        "post",
        r"Slack|Telegram|Twilio|WhatsApp|Discord|Webex|Zoom|GoogleCalendar|CalCom|Github|Bitbucket|Jira|Linear|Confluence|Trello|Todoist|ClickUp|Notion|GoogleSheets|GoogleDrive|X|Twitter|Reddit|Zendesk|Shopify|Composio|CustomApi|Api|EVM",
    ),
)
"""Toolkits of Agno and phidata by their names without `Tools`."""

_CLIENTS: tuple[tuple[EffectKind, str], ...] = (
    (
        "mail",
        r"smtplib|aiosmtplib|yagmail|redmail|sendgrid|@sendgrid|resend|mailgun|postmark\w*|mailjet\w*|mailtrap|sib_api_v3_sdk|brevo\w*|nodemailer|imaplib|imap_tools|exchangelib|O365|simplegmail|ezgmail|nylas",
    ),
    (
        "payment",
        r"square|plaid|razorpay|paddle_billing|@paddle|adyen|mollie|coinbase\w*|paypalrestsdk|@paypal|alpaca\w*|@alpacahq|ccxt|binance|ib_insync|ib_async|robin_stocks|kiteconnect|oandapyV20|py_clob_client|web3|ethers|viem|solana|solders|payman\w*",
    ),
    (
        "post",  # messages and social networks
        r"slack_sdk|slack_bolt|slack|@slack|twilio|discord|nextcord|disnake|discord\.js|telegram|telebot|aiogram|pyrogram|telethon|grammy|telegraf|node-telegram-bot-api|pywa|whatsapp\w*|heyoo|linebot|nio|mattermostdriver|zulip|webexteamssdk|rocketchat_API|tweepy|twitter|twitter-api-v2|twikit|praw|asyncpraw|snoowrap|linkedin_api|instagrapi|instabot|mastodon|atproto|@atproto|facebook|pyfacebook|vk_api|pushbullet|vonage|pusher|novu",
    ),
    (
        "post",  # code, tickets, customers, documents
        r"github|ghapi|@octokit|octokit|gitlab|@gitbeaker|azure\.devops|bitbucket|jira|jira\.js|atlassian|@linear|linear\w*|notion_client|@notionhq|airtable|pyairtable|hubspot|@hubspot|simple_salesforce|jsforce|pipedrive|zohocrmsdk|gspread\w*|pygsheets|dropbox|boxsdk|box_sdk_gen|trello|trello\.js|asana|zendesk|zenpy|intercom|monday|pyclickup|todoist_api_python|@doist|shopify|@shopify|woocommerce|klaviyo_api|mailchimp\w*|contentful\w*|@sanity|docusign\w*|confluence|servicenow|pysnow|caldav|googleapiclient|googleapis|@googleapis|msgraph|@microsoft/microsoft-graph-client|msal|wordpress_xmlrpc|ghost|figma|miro_api|pagerduty|pdpyras|opsgenie_sdk|datadog_api_client",
    ),
    (
        "post",  # clouds, queues, sandboxes, things
        r"boto3|aioboto3|botocore|aiobotocore|google\.cloud|@google-cloud|azure\.(?!ai|identity|core|search)|@azure/(?!openai|identity|core|search)|kafka|confluent_kafka|aiokafka|kafkajs|pika|aio_pika|amqplib|nats|kombu|celery|dramatiq|rq|bullmq|bull|paho|aiomqtt|asyncio_mqtt|mqtt|zmq|kubernetes|@kubernetes|kr8s|docker|aiodocker|dockerode|digitalocean|pydo|cloudflare|heroku3|fabric|asyncssh|paramiko|netmiko|napalm|ansible_runner|node-ssh|ssh2|minio|b2sdk|@browserbasehq|browserbase|steel\w*|hyperbrowser|@hyperbrowser|daytona\w*|@daytonaio|modal|homeassistant_api|phue|kasa|pychromecast|tuya\w*|spotipy|composio\w*|arcadepy|@arcadeai|huggingface_hub|inngest|@trigger|@upstash/qstash",
    ),
    (
        "post",  # requests
        r"requests|httpx|aiohttp|httplib2|urllib3|got|ky|superagent|ofetch|undici|axios|niquests|treq",
    ),
    (
        "database write",
        r"sqlalchemy|sqlmodel|django\.db|peewee|tortoise|pony|ormar|beanie|odmantic|mongoengine|pymongo|motor|mongodb|mongoose|@prisma|prisma|drizzle-orm|typeorm|sequelize|knex|kysely|mikro-orm|@mikro-orm|objection|supabase|@supabase|firebase_admin|firebase|google\.cloud\.firestore|pynamodb|redis|aioredis|ioredis|@upstash/redis|@vercel/kv|@vercel/postgres|elasticsearch|opensearchpy|@elastic|meilisearch|typesense|algoliasearch|influxdb_client|clickhouse_connect|clickhouse_driver|cassandra|couchdb|couchbase|arango|surrealdb|tinydb|diskcache|duckdb|neo4j|py2neo|graphiti_core|kuzu|chromadb|pinecone|@pinecone-database|qdrant_client|@qdrant|weaviate|weaviate-client|pymilvus|@zilliz|lancedb|vectordb|@lancedb|zep_cloud|zep_python|mem0|mem0ai|letta_client|azure\.cosmos|@azure/cosmos|azure\.search|@azure/search|convex",
    ),
    ("file write", r"git|simple-git|isomorphic-git|fpdf|reportlab|pypdf|fitz|xlsxwriter|h5py|zarr"),
    (
        "desktop",
        r"playwright|@playwright|puppeteer|puppeteer-core|selenium|stagehand|nodriver|pydoll|appium|uiautomator2|adbutils|pywinauto|browser_use|@nut-tree",
    ),
)
"""Packages of clients: their methods act if their names say so."""

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_DOING = frozenset(
    [
        "create",
        "insert",
        "add",
        "append",
        "update",
        "upsert",
        "put",
        "patch",
        "post",
        "delete",
        "remove",
        "destroy",
        "drop",
        "send",
        "produce",
        "publish",
        "upload",
        "write",
        "save",
        "commit",
        "push",
        "merge",
        "move",
        "rename",
        "archive",
        "share",
        "invite",
        "submit",
        "cancel",
        "capture",
        "refund",
        "charge",
        "pay",
        "transfer",
        "buy",
        "sell",
        "order",
        "trade",
        "reply",
        "comment",
        "like",
        "follow",
        "retweet",
        "tweet",
        "ban",
        "kick",
        "pin",
        "react",
        "start",
        "stop",
        "terminate",
        "launch",
        "deploy",
        "restart",
        "invoke",
        "trigger",
        "enqueue",
        "modify",
        "replace",
        "assign",
        "transition",
        "click",
        "fill",
        "goto",
        "trash",
        "batch",
        "quick",
        "set",
        "hset",
        "hmset",
        "setex",
        "incr",
        "decr",
        "lpush",
        "rpush",
        "sadd",
        "zadd",
        "xadd",
        "expire",
        "rpop",
        "lpop",
        "hincrby",
        "mset",
        "output",
        "store",
        "link",
        "withdraw",
        "schedule",
        "import",
        "close",
        "clear",
        "edit",
        "unlink",
        "bulk",
        "transact",
        "kill",
        "act",
        "spawn",
        "fork",
        "exec",
        "press",
        "type",
        "purchase",
        "unfollow",
        "leave",
        "join",
        "subscribe",
    ]
)
_READING = frozenset(
    [
        "get",
        "list",
        "search",
        "find",
        "fetch",
        "read",
        "retrieve",
        "query",
        "describe",
        "count",
        "is",
        "has",
        "load",
        "iter",
        "select",
        "all",
        "filter",
        "first",
        "download",
        "scan",
        "head",
        "show",
        "view",
        "stream",
        "poll",
        "receive",
        "lookup",
        "aggregate",
    ]
)
_CONSTRUCTING = re.compile(
    r"^create\w*_?(?:client|engine|pool|sessionmaker)$|^(?:create|add|set|get|start|import|store)_?(?:client|session|connection|engine|pool|driver|channel|async_client"
    r"|consumer|producer|subscription_path|handler|listener|middleware|command|cog|cors|router|route|logger|header|headers"
    r"|hook|option|options|argument|callback|transport|server|adapter|error_handler|event_listener|field|credentials?"
    r"|default_headers?|timeout|default_timeout|auth|cookie|polling|webhook|page|context|event_loop|tenant_id)s?$"
    r"|^(?:order_?by|like|close|set|start|stop|write|type|create|add|update|store|batch|import|link|append|merge|replace|move|join|clear|all|order|subscribe|act|press|load|react|transaction|invoke_model\w*|invokeModel\w*|invoke_agent\w*|write_timeout|start_polling|drop_pending_updates|set_page_config)$",
    re.IGNORECASE,
)
"""Methods that set something up, and bare words that mean much: those need a row of their own."""
_BARE: dict[str, frozenset[str]] = {
    "mail": frozenset(["append", "store"]),
    "post": frozenset(
        [
            "create",
            "update",
            "add",
            "set",
            "append",
            "move",
            "clear",
            "batch",
            "write",
            "start",
            "stop",
            "subscribe",
            "react",
            "link",
        ]
    ),
    "payment": frozenset(["create"]),
    "database write": frozenset(
        [
            "create",
            "update",
            "add",
            "set",
            "write",
            "merge",
            "move",
            "replace",
            "clear",
            "store",
            "link",
            "batch",
        ]
    ),
    "file write": frozenset(["output", "add"]),
    "desktop": frozenset(["type", "press", "act"]),
}
"""Bare words that act as methods of clients of a kind."""
_BUILDERS = frozenset(["insert", "update", "delete", "select", "bulk"])
"""Functions that build a statement, which something else runs."""
_COLLECTING = frozenset(["append", "add", "update", "set", "insert", "remove", "clear", "delete"])
"""Methods that lists, sets and dicts have too: not of what a client read."""

NAMED = [(kind, re.compile(pattern)) for kind, pattern in _NAMED]
READ = [(kind, re.compile(pattern)) for kind, pattern in _READ]
_PACKAGES = [(kind, re.compile(rf"(?:{pattern})(?=[./-]|$)")) for kind, pattern in _CLIENTS]
_GIVEN = [
    (kind, re.compile(rf"^(?:agno|phi)\.\S*\.(?:{pattern})(?:Tools|Toolkit)?$"))
    for kind, pattern in _TOOLKITS
]


def _words(name: str) -> list[str]:
    return [word.lower() for part in name.split("_") for word in _WORDS.findall(part)]


def says_that_it_acts(method: str) -> bool:
    """Whether a method's name has a word that acts, and does not begin with one that reads."""
    words = _words(method)
    return bool(words) and words[0] not in _READING and not _DOING.isdisjoint(words)


def client_effect(outside: str) -> EffectKind | None:
    """The effect of a method of a known client or a toolkit, by its outside name."""
    for kind, pattern in _GIVEN:
        if pattern.match(outside):
            return kind
    owner, _, method = outside.rpartition(".")
    if not owner or not says_that_it_acts(method):
        return None
    for kind, pattern in _PACKAGES:
        if pattern.match(outside):
            steps = owner.split(".")
            before = _words(steps[-1])
            if _CONSTRUCTING.match(method) and method not in _BARE.get(kind, frozenset()):
                return None
            if len(steps) > 1 and method == "create" and before[-1:] in (["client"], ["pool"]):
                return None
            if method in _COLLECTING and any(
                (_words(one) or [""])[0] in _READING for one in steps[-2:] if one[:1].islower()
            ):
                return None
            builds = method in _BUILDERS and outside.startswith(("sqlalchemy.", "sqlmodel."))
            if builds and "ession" not in outside:
                return None
            if method[:1].isupper():  # a class, such as that of a request: what sends it acts
                return None
            return kind
    return None
